#include "row_changes/watched_columns.h"

#include <algorithm>
#include <string_view>

namespace pgq {

namespace {

/* The columns of the relation while they are looked up. */
struct ColumnList
{
	Oid relation;
	WatchedColumn *columns;
	int n;
	bool *not_null; /* by the place in `columns` */
};

/* What the indexes of the relation say. */
struct KeyFacts
{
	Bitmapset *primary; /* numbers of the columns of the primary key; NULL: there is none */
	bool is_unique;		/* an index makes the columns `of` unique */
	const ColumnList *of;
};

} // namespace

/* ---- columns ---- */

static JsonKind
json_kind_of(Oid type)
{
	/* Types that are not listed are converted by to_jsonb(). */
	switch (type)
	{
		case BOOLOID:
			return JsonKind::kBoolean;
		case INT2OID:
			return JsonKind::kInt2;
		case INT4OID:
			return JsonKind::kInt4;
		case INT8OID:
			return JsonKind::kInt8;
		case NUMERICOID:
			return JsonKind::kNumeric;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
			return JsonKind::kText;
		case BYTEAOID:
			return JsonKind::kBytea;
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return JsonKind::kDateTime;
		case UUIDOID:
			return JsonKind::kUuid;
		case JSONBOID:
			return JsonKind::kJsonb;
		default:
			return JsonKind::kOther;
	}
}

/* Add the column, unless it was dropped, or is a generated column that is not stored. */
static void
add_column(ColumnList *list, const FormData_pg_attribute *attribute)
{
	if (attribute->attisdropped || is_virtual_column(attribute))
		return;
	list->not_null[list->n] = attribute->attnotnull;
	WatchedColumn *column = &list->columns[list->n++];
	*column = {};
	column->name = attribute->attname;
	column->number = attribute->attnum;
	column->type = getBaseType(attribute->atttypid);
	column->length = attribute->attlen;
	column->by_value = attribute->attbyval;
	column->kind = json_kind_of(column->type);
}

static ColumnList
all_columns_of(Oid relation)
{
	ColumnList list{};
	list.relation = relation;
	HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	int n = HeapTupleIsValid(row) ? reinterpret_cast<Form_pg_class>(GETSTRUCT(row))->relnatts : 0;
	if (HeapTupleIsValid(row))
		ReleaseSysCache(row);
	list.columns = static_cast<WatchedColumn *>(palloc0((n + 1) * sizeof(WatchedColumn)));
	list.not_null = static_cast<bool *>(palloc0((n + 1) * sizeof(bool)));
	for (int i = 1; i <= n; i++)
	{
		HeapTuple tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relation),
										  Int16GetDatum(static_cast<int16>(i)));
		if (!HeapTupleIsValid(tuple))
			continue;
		add_column(&list, reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple)));
		ReleaseSysCache(tuple);
	}
	return list;
}

static WatchedColumn *
column_of_name(const ColumnList &list, const char *name)
{
	for (int i = 0; i < list.n; i++)
		if (strcmp(NameStr(list.columns[i].name), name) == 0)
			return &list.columns[i];
	return nullptr;
}

/* Mark the columns that the argument names. */
static WatchFault
mark_columns(const ColumnList &list, const WatchTrigger &trigger, int argument,
			 bool WatchedColumn::*mark)
{
	bool bad;
	ListCell *cell;
	List *names = names_of_argument(trigger.arguments[argument], &bad);
	if (bad)
		return fault_of_form(trigger);
	foreach (cell, names)
	{
		const char *name = static_cast<const char *>(lfirst(cell));
		WatchedColumn *column = column_of_name(list, name);
		if (column == nullptr)
			return {ERRCODE_UNDEFINED_COLUMN,
					psprintf("column \"%s\" of watched table %s does not exist", name,
							 qualified_name(trigger.relation))};
		column->*mark = true;
	}
	return {};
}

/* ---- keys ---- */

/*
 * Return whether the index makes the marked columns unique: all its columns are marked and NOT
 * NULL.
 */
static bool
makes_unique(const FormData_pg_index *index, const ColumnList &list)
{
	for (int i = 0; i < index->indnkeyatts; i++)
	{
		AttrNumber number = index->indkey.values[i];
		const WatchedColumn *end = list.columns + list.n;
		const WatchedColumn *column =
			std::find_if(list.columns, list.columns + list.n,
						 [&](const WatchedColumn &one) { return one.number == number; });
		if (column == end || !column->in_key || !list.not_null[column - list.columns])
			return false;
	}
	return true;
}

static void
note_index(HeapTuple tuple, KeyFacts *facts)
{
	auto *index = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
	if (!index->indisunique || !index->indisvalid)
		return;
	if (index->indisprimary)
		for (int i = 0; i < index->indnkeyatts; i++)
			facts->primary = bms_add_member(facts->primary, index->indkey.values[i]);
	/*
	 * The number of a column is 0 for an expression. An index with a condition is not of all rows.
	 */
	if (facts->of != nullptr && index->indimmediate && makes_unique(index, *facts->of) &&
		heap_attisnull(tuple, Anum_pg_index_indpred, nullptr))
		facts->is_unique = true;
}

/*
 * Read the indexes of the relation. marked: the columns for which to look for a unique index; NULL:
 * none.
 */
static KeyFacts
read_indexes(Oid relation, const ColumnList *marked)
{
	KeyFacts facts{};
	ScanKeyData key;
	facts.of = marked;
	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relation));
	Relation indexes = table_open(IndexRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(indexes, IndexIndrelidIndexId, true, nullptr, 1, &key);
	while (HeapTuple tuple = systable_getnext(scan))
		note_index(tuple, &facts);
	systable_endscan(scan);
	table_close(indexes, AccessShareLock);
	return facts;
}

/* Mark the columns of the key. */
static WatchFault
mark_key(const ColumnList &list, const WatchTrigger &trigger, WatchedColumns *read)
{
	read->primary_key = strcmp(trigger.arguments[kKeyList], kPrimaryKey) == 0;
	if (read->primary_key)
	{
		KeyFacts facts = read_indexes(list.relation, nullptr);
		for (int i = 0; i < list.n; i++)
			list.columns[i].in_key = bms_is_member(list.columns[i].number, facts.primary);
	}
	else if (WatchFault fault = mark_columns(list, trigger, kKeyList, &WatchedColumn::in_key);
			 fault.message != nullptr)
		return fault;
	read->key_is_unique = read_indexes(list.relation, &list).is_unique;
	return {};
}

/* Return whether a jsonb object has the key a before the key b. */
static bool
is_before(const WatchedColumn &a, const WatchedColumn &b)
{
	std::string_view left = NameStr(a.name);
	std::string_view right = NameStr(b.name);
	return left.size() != right.size() ? left.size() < right.size() : left < right;
}

WatchFault
read_watched_columns(const WatchTrigger &trigger, WatchedColumns *read)
{
	ColumnList list = all_columns_of(trigger.relation);
	read->all_columns = strcmp(trigger.arguments[kColumnList], kAllColumns) == 0;
	read->coalescing = trigger.arguments[kColumnList][0] == '\0';
	WatchFault fault{};
	if (read->all_columns)
		for (int i = 0; i < list.n; i++)
			list.columns[i].in_image = true;
	else
		fault = mark_columns(list, trigger, kColumnList, &WatchedColumn::in_image);
	if (fault.message == nullptr)
		fault = mark_key(list, trigger, read);
	if (fault.message != nullptr)
		return fault;
	/* A coalescing watch compares all columns, though its jobs have none but the key. */
	WatchedColumn *end = list.columns + list.n;
	if (!read->coalescing)
		end = std::remove_if(list.columns, end, [](const WatchedColumn &column) {
			return !column.in_key && !column.in_image;
		});
	std::sort(list.columns, end, is_before);
	read->list = list.columns;
	read->n = static_cast<int>(end - list.columns);
	read->has_key =
		std::any_of(list.columns, end, [](const WatchedColumn &column) { return column.in_key; });
	return {};
}

} // namespace pgq
