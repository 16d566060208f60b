#include "catalog/incarnation.h"

#include "engine/registry.h"

namespace pgq {

/*
 * Return whether the incarnation is certain to be gone. A transaction that creates or drops the
 * table pgq_ext.queue has an AccessExclusiveLock on the table until its outcome is visible, also
 * while it is prepared. So if no transaction has that lock, the catalog says for certain whether
 * the table exists.
 */
static bool
is_gone(Oid incarnation)
{
	LOCKTAG tag;
	SET_LOCKTAG_RELATION(tag, MyDatabaseId, incarnation);
	if (has_lock(tag, AccessExclusiveLock) ||
		!ConditionalLockRelationOid(incarnation, AccessShareLock))
		return false;
	bool gone = !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(incarnation));
	UnlockRelationOid(incarnation, AccessShareLock);
	return gone;
}

int
free_gone_incarnations()
{
	int freed = 0;
	auto *notes = static_cast<SlotNote *>(palloc(max_databases * sizeof(SlotNote)));
	int n = note_slots(notes);
	for (int i = 0; i < n; i++)
		if (notes[i].oid == MyDatabaseId && is_gone(notes[i].incarnation))
		{
			free_database(notes[i].database, notes[i].generation);
			freed++;
		}
	pfree(notes);
	return freed;
}

} // namespace pgq
