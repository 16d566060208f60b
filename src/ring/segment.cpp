#include "ring/segment.h"

#include "catalog/lock_order.h"
#include "catalog/shape.h"

namespace pgq {

/* Return the size of a relation in bytes; 0 if it is locked against readers. */
static int64
bytes_of(Oid relid)
{
	if (!OidIsValid(relid) || !ConditionalLockRelationOid(relid, AccessShareLock))
		return 0;
	Relation rel = relation_open(relid, NoLock);
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	relation_close(rel, AccessShareLock);
	return static_cast<int64>(blocks) * BLCKSZ;
}

Oid
toast_of(const Segment &segment)
{
	Relation rel = table_open(segment.heap, AccessShareLock);
	Oid toast = rel->rd_rel->reltoastrelid;
	table_close(rel, AccessShareLock);
	return toast;
}

int64
table_bytes(const Segment &segment)
{
	return bytes_of(segment.heap) + bytes_of(toast_of(segment));
}

int64
segment_bytes(const Segment &segment)
{
	int64 bytes = table_bytes(segment);
	Relation rel = table_open(segment.heap, AccessShareLock);
	Shape shape = shape_of(rel, segment.number);
	table_close(rel, AccessShareLock);
	for (Oid index : shape.index)
		bytes += bytes_of(index);
	return bytes;
}

bool
is_bare(const Segment &segment)
{
	return bytes_of(segment.heap) == 0;
}

static void
clear_statistics(Oid relid)
{
	if (!OidIsValid(relid) || told_dead_rows(relid) == 0 ||
		!ConditionalLockRelationOid(relid, AccessShareLock))
		return;
	Relation rel = table_open(relid, NoLock);
	pgstat_count_truncate(rel);
	table_close(rel, AccessShareLock);
}

void
clear_statistics(const Segment &segment)
{
	clear_statistics(segment.heap);
	clear_statistics(toast_of(segment));
}

bool
lock_for_writing(const Segment &segment)
{
	Oid toast = toast_of(segment);
	return (!OidIsValid(toast) || lock_with_indexes(toast, RowExclusiveLock)) &&
		   lock_with_indexes(segment.heap, RowExclusiveLock);
}

} // namespace pgq
