#include "catalog/lock_order.h"

#include "catalog/owner_sql.h"
#include "catalog/shape.h"

namespace pgq {

/*
 * Lock a table in AccessShareLock, and its segments in `mode`. Returns false if a lock is not
 * available.
 */
static bool
lock_with_segments(Oid table, LOCKMODE mode)
{
	if (!OidIsValid(table) || !ConditionalLockRelationOid(table, AccessShareLock))
		return false;
	List *segments = find_inheritance_children(table, NoLock);
	ListCell *cell;
	foreach (cell, segments)
		if (!ConditionalLockRelationOid(lfirst_oid(cell), mode))
			return false;
	return true;
}

/* Lock the indexes of a segment that is locked. Returns false if a lock is not available. */
static bool
lock_indexes(const Segment &segment, LOCKMODE mode)
{
	Relation rel = table_open(segment.heap, NoLock);
	Shape shape = shape_of(rel, segment.number);
	table_close(rel, NoLock);
	for (Oid index : shape.index)
		if (OidIsValid(index) && !ConditionalLockRelationOid(index, mode))
			return false;
	return true;
}

bool
lock_with_indexes(Oid relid, LOCKMODE mode)
{
	if (!ConditionalLockRelationOid(relid, mode))
		return false;
	Relation rel = table_open(relid, NoLock);
	List *indexes = RelationGetIndexList(rel);
	bool locked = true;
	ListCell *cell;
	foreach (cell, indexes)
		locked = locked && ConditionalLockRelationOid(lfirst_oid(cell), mode);
	list_free(indexes);
	table_close(rel, NoLock);
	return locked;
}

bool
lock_notes(const Tables &t)
{
	auto lock = [](Oid table, LOCKMODE mode) {
		return !OidIsValid(table) || lock_with_indexes(table, mode);
	};
	return lock(t.batch_note(), RowExclusiveLock) && lock(t.job_dependency(), AccessShareLock) &&
		   lock(t.job_outcome(), RowExclusiveLock);
}

bool
lock_tables(LOCKMODE mode)
{
	static constexpr const char *names[] = {"queue", "token_mark", "token_key", "saved_lease",
											"unique_key"};
	Oid schema = get_namespace_oid("pgq_ext", true);
	if (!OidIsValid(schema))
		return false;
	for (const char *name : names)
		if (!lock_with_segments(get_relname_relid(name, schema), mode))
			return false;
	for (const RingSpec &ring : rings)
		if (!lock_with_segments(get_relname_relid(ring.table, schema), mode))
			return false;
	/* Also lock the indexes: REINDEX locks readers out of an index, but not out of its table. */
	const Tables *t = tables_if_attached();
	if (t != nullptr && has_whole_segments())
		for (const Segment &segment : look_at_tables().all_segments())
			if (!lock_indexes(segment, mode))
				return false;
	/*
	 * If the database has no slot, the caller will attach the database, and would wait for another
	 * session that is attaching it. So return false if the lock for attaching is not available.
	 */
	if (t == nullptr && !ConditionalLockRelationOid(get_relname_relid("token_mark", schema),
													ShareUpdateExclusiveLock))
		return false;
	return InSecurityRestrictedOperation() && GetUserId() == owner_of_tables();
}

bool
lock_and_serve(LOCKMODE mode)
{
	if (!lock_tables(mode))
		return false;
	const Tables *t = tables_if_attached();
	return t != nullptr && has_whole_segments() && !OidIsValid(t->subscription) &&
		   (mode < RowExclusiveLock || lock_notes(*t));
}

} // namespace pgq
