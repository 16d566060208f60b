#include "catalog/column.h"

namespace pgq {

static_assert(kInt8 == INT8OID && kInt2 == INT2OID && kInt4 == INT4OID && kText == TEXTOID &&
			  kTimestamptz == TIMESTAMPTZOID && kJsonb == JSONBOID);

static bool
is_as_expected(Form_pg_attribute attribute, const Column &column)
{
	return !attribute->attisdropped && attribute->atttypid == column.type &&
		   strcmp(NameStr(attribute->attname), column.name) == 0;
}

void
check_columns(Relation rel, const Column *columns, int n)
{
	TupleDesc desc = RelationGetDescr(rel);
	bool same = desc->natts >= n;
	for (int i = 0; same && i < desc->natts; i++)
		same = i < n ? is_as_expected(TupleDescAttr(desc, i), columns[i])
					 : TupleDescAttr(desc, i)->attisdropped;
	if (!same || rel->rd_tableam != GetHeapamTableAmRoutine())
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("table \"pgq_ext.%s\" is not as the pgq_ext library expects it",
							   RelationGetRelationName(rel)),
						errdetail("Its columns or its access method are others."),
						errhint("Do not alter the tables of pgq_ext.")));
}

} // namespace pgq
