#include "catalog/token_key.h"

#include "pg/scope.h"

namespace pgq {

static constexpr AttrNumber kKey = 1;

/*
 * Return whether the table has the expected form. If a superuser has altered the table, no key is
 * read from it or stored in it.
 */
static bool
is_token_key(Relation rel)
{
	TupleDesc desc = RelationGetDescr(rel);
	return rel->rd_rel->relkind == RELKIND_RELATION && desc->natts == 1 &&
		   TupleDescAttr(desc, 0)->atttypid == UUIDOID;
}

static bool
find_key(Relation rel, TokenKey *key)
{
	if (!is_token_key(rel))
		return false;
	bool is_null = true;
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, nullptr);
	HeapTuple tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Datum value = heap_getattr(tuple, kKey, RelationGetDescr(rel), &is_null);
		if (!is_null)
			memcpy(key, DatumGetPointer(value), sizeof(*key));
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	return !is_null;
}

TokenKey
read_token_key(Oid table)
{
	TokenKey key;
	Relation rel = relation_open(table, AccessShareLock);
	bool found = find_key(rel, &key);
	relation_close(rel, AccessShareLock);
	if (found)
		return mixed_with(key, MyDatabaseId);
	if (!pg_strong_random(&key, sizeof(key)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
						errmsg("could not generate a random key for lease tokens")));
	return key;
}

void
keep_token_key(const Tables &t)
{
	Oid table = t.token_key();
	if (!ConditionalLockRelationOid(table, ShareRowExclusiveLock))
		return;
	Relation rel = relation_open(table, NoLock);
	TokenKey key;
	if (is_token_key(rel) && !find_key(rel, &key))
	{
		key = mixed_with(t.database->token_key, MyDatabaseId);
		Datum value = PointerGetDatum(&key);
		bool is_null = false;
		simple_heap_insert(rel, heap_form_tuple(RelationGetDescr(rel), &value, &is_null));
	}
	relation_close(rel, NoLock);
}

} // namespace pgq
