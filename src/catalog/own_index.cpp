#include "catalog/own_index.h"

namespace pgq {

/* Return the btree of that name; InvalidOid: there is none. */
static Oid
find_btree(const char *name, Oid schema)
{
	HeapTuple tuple = SearchSysCache2(RELNAMENSP, PointerGetDatum(name), ObjectIdGetDatum(schema));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	auto *relation = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
	Oid oid = relation->relam == BTREE_AM_OID ? relation->oid : InvalidOid;
	ReleaseSysCache(tuple);
	return oid;
}

template <typename Vector>
static const Vector *
vector_of(HeapTuple index, AttrNumber number)
{
	bool is_null;
	return reinterpret_cast<const Vector *>(
		DatumGetPointer(SysCacheGetAttr(INDEXRELID, index, number, &is_null)));
}

/*
 * Return whether the index has exactly these columns in this order, with the C collation for text
 * columns.
 */
static bool
has_columns(HeapTuple index, const IndexColumn *columns)
{
	auto *form = reinterpret_cast<Form_pg_index>(GETSTRUCT(index));
	auto *option = vector_of<int2vector>(index, Anum_pg_index_indoption);
	auto *collation = vector_of<oidvector>(index, Anum_pg_index_indcollation);
	int n = 0;
	for (; columns[n].number != 0; n++)
		if (n == form->indnatts || form->indkey.values[n] != columns[n].number ||
			((option->values[n] & INDOPTION_DESC) != 0) != columns[n].descending ||
			(OidIsValid(collation->values[n]) && collation->values[n] != C_COLLATION_OID))
			return false;
	return n == form->indnatts && n == form->indnkeyatts;
}

/*
 * Return whether the index has an entry for each row that needs one. False while the index is being
 * built, and after its build has failed.
 */
static bool
is_whole(HeapTuple index)
{
	auto *form = reinterpret_cast<Form_pg_index>(GETSTRUCT(index));
	return form->indislive && form->indisready && form->indisvalid;
}

Oid
find_index(const char *name, Oid schema, Oid heap, const IndexSpec &spec, bool unique)
{
	Oid oid = find_btree(name, schema);
	HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(oid));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	auto *index = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
	bool ours =
		index->indrelid == heap && is_whole(tuple) && has_columns(tuple, spec.columns) &&
		index->indisunique == unique &&
		heap_attisnull(tuple, Anum_pg_index_indpred, nullptr) == (spec.predicate == nullptr);
	ReleaseSysCache(tuple);
	return ours ? oid : InvalidOid;
}

} // namespace pgq
