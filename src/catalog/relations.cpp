#include "catalog/relations.h"

#include "pg/version_storage.h"

namespace pgq {

static constinit bool scanned = false; /* this session has scanned pg_class */

static NamedRelation
named_relation(const char *name, HeapTuple tuple)
{
	auto *row = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
	return {name, row->oid, row->relkind, row->relowner};
}

NamedRelation
find_relation(Oid schema, const char *name)
{
	HeapTuple tuple = SearchSysCache2(RELNAMENSP, PointerGetDatum(name), ObjectIdGetDatum(schema));
	if (!HeapTupleIsValid(tuple))
		return {.name = name};
	NamedRelation found = named_relation(name, tuple);
	ReleaseSysCache(tuple);
	return found;
}

static void
scan_relations(Oid schema, NamedRelation *relations, int n)
{
	Relation rel = table_open(RelationRelationId, AccessShareLock);
	Relation index = index_open(ClassNameNspIndexId, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetCatalogSnapshot(RelationRelationId));
	TupleTableSlot *slot = table_slot_create(rel, nullptr);
	IndexScanDesc scan = begin_index_scan(rel, index, snapshot, 2);
	for (NamedRelation *relation = relations; relation != relations + n; relation++)
	{
		NameData name;
		ScanKeyData keys[2];
		namestrcpy(&name, relation->name);
		/* In a scan of an index, the number of a key is that of the index's column. */
		ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&name));
		ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(schema));
		index_rescan(scan, keys, lengthof(keys), nullptr, 0);
		*relation =
			index_getnext_slot(scan, ForwardScanDirection, slot)
				? named_relation(relation->name, ExecFetchSlotHeapTuple(slot, false, nullptr))
				: NamedRelation{.name = relation->name};
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	UnregisterSnapshot(snapshot);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
}

void
find_relations(Oid schema, NamedRelation *relations, int n)
{
	if (!scanned && !IgnoreSystemIndexes)
		scan_relations(schema, relations, n);
	else
		for (int i = 0; i < n; i++)
			relations[i] = find_relation(schema, relations[i].name);
	scanned = true;
}

} // namespace pgq
