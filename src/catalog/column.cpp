#include "catalog/column.h"

namespace pgq {

static_assert(kBool == BOOLOID && kInt8 == INT8OID && kInt2 == INT2OID && kInt4 == INT4OID &&
			  kText == TEXTOID && kOid == OIDOID && kTimestamptz == TIMESTAMPTZOID &&
			  kJsonb == JSONBOID);

/* ---- one column ---- */

static bool
has_type(TupleDesc desc, int i, Oid type)
{
	return i < desc->natts && !TupleDescAttr(desc, i)->attisdropped &&
		   TupleDescAttr(desc, i)->atttypid == type;
}

/*
 * Return whether column i has the expected type. In a table, the column must also have the expected
 * name, and be NOT NULL if that is expected.
 */
static bool
is_as_expected(TupleDesc desc, int i, const Column &column, bool in_table)
{
	if (!has_type(desc, i, column.type))
		return false;
	Form_pg_attribute attribute = TupleDescAttr(desc, i);
	return !in_table || (strcmp(NameStr(attribute->attname), column.name) == 0 &&
						 (attribute->attnotnull || column.nulls == Nulls::kAllowed));
}

/* Return the index of the first column that is not as expected; n if there is no such column. */
static int
find_odd(TupleDesc desc, const Column *columns, int n, bool in_table)
{
	int i = 0;
	while (i < n && is_as_expected(desc, i, columns[i], in_table))
		i++;
	return i;
}

/* ---- tables ---- */

[[noreturn]] static void
complain_of_table(const char *table, char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"pgq_ext.%s\" differs from what the pgq_ext library expects", table),
			 errdetail("%s", what),
			 errhint("Undo the change. The tables of pgq_ext must not be altered.")));
}

void
check_first_columns(Relation rel, const Column *columns, int n)
{
	const char *table = RelationGetRelationName(rel);
	int odd = find_odd(RelationGetDescr(rel), columns, n, true);
	if (odd < n)
		complain_of_table(table, psprintf("Column %d must be \"%s\" of type %s%s.", odd + 1,
										  columns[odd].name, format_type_be(columns[odd].type),
										  columns[odd].nulls == Nulls::kNone ? ", NOT NULL" : ""));
	if (rel->rd_tableam != GetHeapamTableAmRoutine())
		complain_of_table(table, pstrdup("The access method of the table must be heap."));
}

void
check_columns(Relation rel, const Column *columns, int n)
{
	check_first_columns(rel, columns, n);
	TupleDesc desc = RelationGetDescr(rel);
	for (int i = n; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			complain_of_table(RelationGetRelationName(rel),
							  psprintf("The table must not have a column \"%s\".",
									   NameStr(TupleDescAttr(desc, i)->attname)));
}

/* ---- row types ---- */

void
check_row_type(TupleDesc desc, const char *name, const Column *columns, int n)
{
	int odd = find_odd(desc, columns, n, false);
	if (likely(odd == n))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("type \"pgq_ext.%s\" differs from what the pgq_ext library expects", name),
			 errdetail("Attribute %d must be \"%s\" of type %s.", odd + 1, columns[odd].name,
					   format_type_be(columns[odd].type)),
			 errhint("Undo the change. The types of pgq_ext must not be altered.")));
}

/* ---- results ---- */

static const char *
name_of(TupleDesc desc, int column)
{
	return column <= desc->natts ? NameStr(TupleDescAttr(desc, column - 1)->attname) : "?";
}

void
check_result(TupleDesc desc, int column, Oid type)
{
	if (likely(has_type(desc, column - 1, type)))
		return;
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("the tables of pgq_ext differ from what the pgq_ext library expects"),
					errdetail("Column \"%s\" must be of type %s.", name_of(desc, column),
							  format_type_be(type)),
					errhint("Undo the change. The tables of pgq_ext must not be altered.")));
}

void
complain_null(TupleDesc desc, int column)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("column \"%s\" of a table in schema \"pgq_ext\" contains a null value",
					name_of(desc, column)),
			 errdetail("The NOT NULL constraint of this column was dropped."),
			 errhint("Look for a table of this schema in which a column of this name has no NOT "
					 "NULL constraint. Restore the values of the rows in which the column is null, "
					 "and then the constraint.")));
}

} // namespace pgq
