#include "catalog/shape.h"

#include "catalog/own_index.h"
#include "catalog/own_trigger.h"

namespace pgq {

namespace {

/* The shape of a segment, and whether it is still valid. */
struct KnownShape
{
	Oid heap;
	bool checked; /* the columns were compared */
	bool valid;	  /* `shape` is known, too */
	bool changed; /* an invalidation of the segment has arrived since the look began */
	Shape shape;
};

} // namespace

static constinit KnownShape known_shapes[kAllSegments] = {};

static constinit bool shape_callback_registered = false;

static void
forget_shapes(Datum, Oid relid)
{
	for (KnownShape &shape : known_shapes)
		if (relid == shape.heap || relid == InvalidOid)
		{
			shape.checked = shape.valid = false;
			shape.changed = true;
		}
}

static void
register_shape_callback()
{
	if (shape_callback_registered)
		return;
	CacheRegisterRelcacheCallback(forget_shapes, 0);
	shape_callback_registered = true;
}

/*
 * Return whether the segment has the column batch_id and the columns after it. A database that was
 * updated from version 0.1 may lack them.
 */
static bool
has_batch_column(Relation rel, const RingSpec &spec)
{
	TupleDesc desc = RelationGetDescr(rel);
	int i = spec.n_columns_before;
	return i < spec.n_columns && i < desc->natts && !TupleDescAttr(desc, i)->attisdropped &&
		   strcmp(NameStr(TupleDescAttr(desc, i)->attname), spec.columns[i].name) == 0;
}

/* Compare the columns of a segment. Return whether it has the column batch_id. */
static bool
compare_columns(Relation rel, const RingSpec &spec)
{
	bool has_batches = has_batch_column(rel, spec);
	check_columns(rel, spec.columns, has_batches ? spec.n_columns : spec.n_columns_before);
	return has_batches;
}

/*
 * Check the columns of a segment, and look for the ring's indexes, for triggers of the extension
 * that are switched off, and for indexes that users have added. Returns false if an index of the
 * ring is missing (a restore creates indexes after the data).
 */
static bool
read_shape(Relation rel, RingName ring, Shape *shape)
{
	const RingSpec &spec = rings[ring];
	*shape = {};
	shape->has_batches = compare_columns(rel, spec);
	/* Find the indexes of the ring by name. */
	bool complete = true;
	for (int i = 0; i < kIndexes; i++)
	{
		const IndexSpec &index = spec.indexes[i];
		if (index.name == nullptr || (is_new_index(i) && !shape->has_batches))
			continue;
		shape->index[i] =
			find_index(psprintf("%s_%s", RelationGetRelationName(rel), index.name),
					   RelationGetNamespace(rel), RelationGetRelid(rel), index, i == kById);
		complete = complete && OidIsValid(shape->index[i]);
	}
	shape->muted = has_muted_trigger(rel);

	/* All other indexes were added by users. */
	List *indexes = RelationGetIndexList(rel);
	ListCell *cell;
	foreach (cell, indexes)
	{
		bool ours = false;
		for (Oid index : shape->index)
			ours |= lfirst_oid(cell) == index;
		shape->has_others |= !ours;
	}
	list_free(indexes);
	return complete;
}

/*
 * Look at the shape of a segment, unless it is known and valid. Returns nullptr if an index is
 * missing.
 */
static const Shape *
look_at_shape(Relation rel, int number)
{
	static constexpr int kTries = 10;
	register_shape_callback();
	KnownShape &s = known_shapes[number];
	if (likely(s.valid && s.heap == RelationGetRelid(rel)))
		return &s.shape;
	for (int tries = 0; tries < kTries; tries++)
	{
		s.heap = RelationGetRelid(rel);
		s.checked = s.valid = s.changed = false;
		if (!read_shape(rel, ring_of(number), &s.shape))
			return nullptr;
		s.checked = s.valid = !s.changed;
		if (s.valid)
			break;
	}
	return &s.shape;
}

static bool
is_shape_known(const Segment &segment)
{
	const KnownShape &s = known_shapes[segment.number];
	return s.valid && s.heap == segment.heap;
}

/*
 * Look at the shapes of all segments of t. Returns false if an index is missing. Skips a segment
 * that was dropped after t was read.
 */
static bool
look_at_shapes(const Tables &t)
{
	for (const Segment &segment : t.all_segments())
	{
		if (is_shape_known(segment))
			continue;
		Relation rel = try_table_open(segment.heap, AccessShareLock);
		if (rel == nullptr)
			continue;
		bool complete = look_at_shape(rel, segment.number) != nullptr;
		table_close(rel, AccessShareLock);
		if (!complete)
			return false;
	}
	return true;
}

void
check_segment(Relation segment, int number)
{
	register_shape_callback();
	KnownShape &s = known_shapes[number];
	if (likely(s.checked && s.heap == RelationGetRelid(segment)))
		return;
	s = {.heap = RelationGetRelid(segment)};
	(void) compare_columns(segment, rings[ring_of(number)]);
	s.checked = true;
}

Shape
shape_of(Relation segment, int number)
{
	const Shape *shape = look_at_shape(segment, number);
	if (shape == nullptr)
		complain_incomplete();
	return *shape;
}

Relation
open_segment(const Segment &segment, LOCKMODE mode)
{
	Relation rel = table_open(segment.heap, mode);
	if (tables_may_differ() && look_at_tables().get(segment.number).heap != segment.heap)
		complain_incomplete();
	(void) shape_of(rel, segment.number);
	return rel;
}

bool
shapes_known()
{
	for (const Segment &segment : look_at_tables().all_segments())
		if (!is_shape_known(segment))
			return false;
	return true;
}

bool
has_whole_segments()
{
	const Tables &t = look_at_tables();
	return t.has_segments && look_at_shapes(t);
}

void
require_whole_segments()
{
	const Tables &t = look_at_tables();
	if (t.incomplete || !look_at_shapes(t))
		complain_incomplete();
}

} // namespace pgq
