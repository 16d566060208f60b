#include "catalog/lock_order.h"

#include "catalog/owner_sql.h"

namespace pgq {

bool
lock_tables(LOCKMODE mode)
{
	static constexpr const char *names[] = {"queue",	   "token_mark", "token_key",
											"saved_lease", "job",		 "dead_job"};
	Oid schema = get_namespace_oid("pgq_ext", true);
	if (!OidIsValid(schema))
		return false;
	for (const char *name : names)
	{
		Oid oid = get_relname_relid(name, schema);
		if (!OidIsValid(oid) || !ConditionalLockRelationOid(oid, AccessShareLock))
			return false;
		List *segments = find_inheritance_children(oid, NoLock);
		ListCell *cell;
		foreach (cell, segments)
			if (!ConditionalLockRelationOid(lfirst_oid(cell), mode))
				return false;
	}
	/* REINDEX keeps readers out of an index, not of its table. */
	const Tables *t = tables_if_attached();
	for (int i = 0; t != nullptr && i < t->all_segments; i++)
	{
		const Segment &segment = t->segment[i];
		const Oid indexes[] = {segment.by_id, segment.by_order, segment.delayed};
		for (Oid index : indexes)
			if (OidIsValid(index) && !ConditionalLockRelationOid(index, mode))
				return false;
	}
	/* Nor wait for who is attaching the database just now. */
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
	return t != nullptr && t->segments > 0 && !OidIsValid(t->subscription);
}

} // namespace pgq
