#include "catalog/relations.h"
#include "catalog/tables.h"

namespace pgq {

/* Return the number of the segment with that name; -1 if no segment of the ring has that name. */
static int
number_of_segment(const char *name, RingName ring)
{
	const char *digits = strrchr(name, '_');
	int number = digits != nullptr ? atoi(digits + 1) : -1;
	return number >= first_in(ring) && number < first_in(ring + 1) &&
				   strcmp(name, psprintf("%s_%d", rings[ring].table, number)) == 0
			   ? number
			   : -1;
}

/* Return the number of the partition by its name, which must be a name of a segment of the ring. */
static int
number_of_partition(Oid heap, const char *name, Oid schema, RingName ring)
{
	int number = number_of_segment(name, ring);
	if (number < 0 || get_rel_namespace(heap) != schema)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partition \"%s\" has a name or schema that pgq_ext does not use", name),
				 errhint("Undo the renaming or move, or detach a partition that you have added.")));
	return number;
}

/*
 * Read the whole catalog of partitions, and list those of each ring. Returns false if the catalog is
 * large, or if a partition is being detached: the server decides whether that one still counts.
 */
static bool
read_partitions(const Tables &t, Relation rel, List **partitions)
{
	static constexpr BlockNumber kSmall = 2;
	if (RelationGetNumberOfBlocks(rel) > kSmall)
		return false;
	bool detached = false;
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, nullptr, 0, nullptr);
	while (HeapTuple tuple = systable_getnext(scan))
	{
		auto *row = reinterpret_cast<Form_pg_inherits>(GETSTRUCT(tuple));
		for (RingName ring : all_rings)
			if (row->inhparent == t.ring[ring])
			{
				partitions[ring] = lappend_oid(partitions[ring], row->inhrelid);
				detached |= row->inhdetachpending;
			}
	}
	systable_endscan(scan);
	return !detached;
}

/*
 * List the partitions of each ring. If the catalog is small, it is read without its index: a session
 * that has just begun would need longer to open that.
 */
static void
list_partitions(const Tables &t, List **partitions)
{
	Relation rel = table_open(InheritsRelationId, AccessShareLock);
	bool listed = read_partitions(t, rel, partitions);
	table_close(rel, AccessShareLock);
	if (listed)
		return;
	for (RingName ring : all_rings)
	{
		list_free(partitions[ring]);
		partitions[ring] = find_inheritance_children(t.ring[ring], NoLock);
	}
}

/*
 * Add a ring's segments to t; return their number. named: the relations that have the names of
 * segments, by number. The segments are not locked, so one of them may be dropped or renamed at the
 * same time.
 */
static int
add_segments(Tables *t, Oid schema, RingName ring, const List *partitions,
			 const NamedRelation *named)
{
	int n = 0;
	ListCell *cell;
	foreach (cell, partitions)
	{
		Oid heap = lfirst_oid(cell);
		int number = first_in(ring);
		while (number < first_in(ring + 1) && named[number].oid != heap)
			number++;
		if (number == first_in(ring + 1))
		{
			const char *name = get_rel_name(heap);
			if (name == nullptr)
				continue;
			number = number_of_partition(heap, name, schema, ring);
		}
		t->segment[number] = {number, heap};
		n++;
	}
	return n;
}

void
find_segments(Tables *t, Oid schema, const NamedRelation *named)
{
	List *partitions[kRings] = {};
	int jobs = 0;
	bool complete = true;
	list_partitions(*t, partitions);
	for (RingName ring : all_rings)
	{
		int n = add_segments(t, schema, ring, partitions[ring], named);
		if (ring == kJobRing)
			jobs = n;
		complete &= (jobs > 0) == (n > 0);
	}
	for (List *list : partitions)
		list_free(list);
	t->incomplete = !complete;
	t->has_segments = complete && jobs > 0;
	if (!complete)
		for (Segment &segment : t->segment)
			segment = {};
}

} // namespace pgq
