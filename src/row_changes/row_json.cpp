#include "row_changes/row_json.h"

namespace pgq {

/* ---- settings ---- */

void
set_output_settings()
{
	static const struct
	{
		const char *name;
		const char *value;
	} settings[] = {
		{"bytea_output", "hex"}, {"extra_float_digits", "1"},	   {"IntervalStyle", "iso_8601"},
		{"lc_monetary", "C"},	 {"quote_all_identifiers", "off"}, {"TimeZone", "UTC"},
	};
	if (DateStyle != USE_ISO_DATES)
		(void) set_config_option("DateStyle", "ISO", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
								 true, 0, false);
	for (const auto &setting : settings)
		if (strcmp(GetConfigOption(setting.name, false, false), setting.value) != 0)
			(void) set_config_option(setting.name, setting.value, PGC_USERSET, PGC_S_SESSION,
									 GUC_ACTION_SAVE, true, 0, false);
}

/* ---- parts of a JSON document ---- */

static JsonbValue
json_null()
{
	JsonbValue value{};
	value.type = jbvNull;
	return value;
}

static JsonbValue
json_string(const char *text, size_t length)
{
	JsonbValue value{};
	if (length > JENTRY_OFFLENMASK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("value is too long for JSON"),
				 errdetail("The text of the value has %zu bytes. A string in JSON has at most %d "
						   "bytes.",
						   length, JENTRY_OFFLENMASK)));
	value.type = jbvString;
	value.val.string.len = static_cast<int>(length);
	value.val.string.val = const_cast<char *>(text);
	return value;
}

static JsonbValue
json_string(const char *text)
{
	return json_string(text, strlen(text));
}

static JsonbValue
json_number(Numeric number)
{
	JsonbValue value{};
	value.type = jbvNumeric;
	value.val.numeric = number;
	return value;
}

static JsonbValue
json_object(JsonbPair *pairs, int n)
{
	JsonbValue value{};
	value.type = jbvObject;
	value.val.object.pairs = pairs;
	value.val.object.nPairs = n;
	return value;
}

static void
put_pair(JsonbPair *pairs, int *n, const JsonbValue &key, const JsonbValue &value)
{
	pairs[*n].key = key;
	pairs[*n].value = value;
	pairs[*n].order = static_cast<uint32>(*n);
	(*n)++;
}

static JsonbValue tree_of(JsonbContainer *container);

/* Return the value; if an iterator has returned it in binary form, as a tree. */
static JsonbValue
unpacked(const JsonbValue &value)
{
	return value.type == jbvBinary ? tree_of(value.val.binary.data) : value;
}

/*
 * Return the tree of a document, as the server expects it when the document becomes a part of
 * another.
 */
static JsonbValue
tree_of(JsonbContainer *container)
{
	check_stack_depth();
	JsonbValue item;
	JsonbIterator *it = JsonbIteratorInit(container);
	JsonbIteratorToken token = JsonbIteratorNext(&it, &item, true);
	bool is_object = token == WJB_BEGIN_OBJECT;
	/* Make an empty tree with room for all elements. */
	auto room = static_cast<Size>(JsonContainerSize(container)) + 1;
	JsonbValue tree{};
	if (is_object)
		tree = json_object(
			static_cast<JsonbPair *>(palloc_extended(room * sizeof(JsonbPair), MCXT_ALLOC_HUGE)),
			0);
	else
	{
		tree.type = jbvArray;
		tree.val.array.rawScalar = JsonContainerIsScalar(container);
		tree.val.array.elems =
			static_cast<JsonbValue *>(palloc_extended(room * sizeof(JsonbValue), MCXT_ALLOC_HUGE));
	}
	/* Fill it. The keys of the object have the right order already. */
	while ((token = JsonbIteratorNext(&it, &item, true)) == WJB_KEY || token == WJB_ELEM)
	{
		JsonbValue value;
		if (token == WJB_ELEM)
			tree.val.array.elems[tree.val.array.nElems++] = unpacked(item);
		else if (JsonbIteratorNext(&it, &value, true) == WJB_VALUE)
			put_pair(tree.val.object.pairs, &tree.val.object.nPairs, item, unpacked(value));
	}
	return tree.type == jbvArray && tree.val.array.rawScalar ? tree.val.array.elems[0] : tree;
}

/* ---- values ---- */

static JsonbValue
numeric_value(Datum value)
{
	Numeric number = DatumGetNumeric(value);
	if (numeric_is_nan(number) || numeric_is_inf(number))
		return json_string(
			DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(number))));
	return json_number(number);
}

static JsonbValue
text_value(Datum value)
{
	const text *string = DatumGetTextPP(value);
	return json_string(VARDATA_ANY(string), VARSIZE_ANY_EXHDR(string));
}

static JsonbValue
bytea_value(Datum value)
{
	Size size = toast_raw_datum_size(value) - VARHDRSZ;
	Size length = 2 * size + 2;
	if (length > JENTRY_OFFLENMASK)
		return json_string(nullptr, length);
	const bytea *bytes = DatumGetByteaPP(value);
	auto *text = static_cast<char *>(palloc(length));
	text[0] = '\\';
	text[1] = 'x';
	(void) hex_encode(VARDATA_ANY(bytes), size, text + 2);
	return json_string(text, length);
}

static JsonbValue
date_time_value(Datum value, Oid type)
{
	auto *text = static_cast<char *>(palloc(MAXDATELEN + 1));
	(void) JsonEncodeDateTime(text, value, type, nullptr);
	return json_string(text);
}

/* Convert by to_jsonb(), as a call in SQL would. */
JsonbValue
RowJson::other_value(int i, Datum value)
{
	const WatchedColumn &column = watch_.columns.list[i];
	FmgrInfo *function = &to_jsonb_[i];
	if (!OidIsValid(function->fn_oid))
	{
		MemoryContext caller = MemoryContextSwitchTo(memory_);
		Node *argument = reinterpret_cast<Node *>(makeNullConst(column.type, -1, InvalidOid));
		fmgr_info(F_TO_JSONB, function);
		fmgr_info_set_expr(
			reinterpret_cast<Node *>(makeFuncExpr(F_TO_JSONB, JSONBOID, list_make1(argument),
												  InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL)),
			function);
		MemoryContextSwitchTo(caller);
	}
	return tree_of(&DatumGetJsonbP(FunctionCall1(function, value))->root);
}

JsonbValue
RowJson::value_of_column(int i, Datum value)
{
	const WatchedColumn &column = watch_.columns.list[i];
	/* The usual types are converted here, which is faster than to_jsonb(), and gives the same. */
	switch (column.kind)
	{
		case JsonKind::kBoolean:
		{
			JsonbValue boolean{};
			boolean.type = jbvBool;
			boolean.val.boolean = DatumGetBool(value);
			return boolean;
		}
		case JsonKind::kInt2:
			return json_number(int64_to_numeric(DatumGetInt16(value)));
		case JsonKind::kInt4:
			return json_number(int64_to_numeric(DatumGetInt32(value)));
		case JsonKind::kInt8:
			return json_number(int64_to_numeric(DatumGetInt64(value)));
		case JsonKind::kNumeric:
			return numeric_value(value);
		case JsonKind::kText:
			return text_value(value);
		case JsonKind::kBytea:
			return bytea_value(value);
		case JsonKind::kDateTime:
			return date_time_value(value, column.type);
		case JsonKind::kUuid:
			return json_string(DatumGetCString(DirectFunctionCall1(uuid_out, value)));
		case JsonKind::kJsonb:
			return tree_of(&DatumGetJsonbP(value)->root);
		case JsonKind::kOther:
			break;
	}
	return other_value(i, value);
}

/* ---- rows ---- */

namespace {

/* For the context of an error. */
struct ConvertedColumn
{
	const Watch *watch;
	const char *name;
};

} // namespace

/* Error context callback: name the column whose value is being converted. */
static void
say_column(void *context)
{
	const auto *column = static_cast<ConvertedColumn *>(context);
	if (column->name == nullptr)
		return;
	errcontext("JSON of column \"%s\" of watched table %s", column->name, column->watch->table);
	if (geterrcode() == ERRCODE_PROGRAM_LIMIT_EXCEEDED)
		errhint("Name the columns that the jobs are to have in the argument columns of "
				"pgq_watch_table, without this one.");
}

RowJson::RowJson(const Watch &watch)
	: watch_(watch),
	  memory_(CurrentMemoryContext),
	  to_jsonb_(static_cast<FmgrInfo *>(palloc0((watch.columns.n + 1) * sizeof(FmgrInfo))))
{}

/* Return the object of the wanted columns. They are sorted as the keys of the object have to be. */
JsonbValue
RowJson::object_of(TupleTableSlot *row, bool WatchedColumn::*wanted)
{
	ConvertedColumn converted = {&watch_, nullptr};
	ErrorContextCallback context = {error_context_stack, say_column, &converted};
	auto *pairs = static_cast<JsonbPair *>(palloc((watch_.columns.n + 1) * sizeof(JsonbPair)));
	int n = 0;
	error_context_stack = &context;
	for (int i = 0; i < watch_.columns.n; i++)
	{
		const WatchedColumn &column = watch_.columns.list[i];
		if (!(column.*wanted))
			continue;
		bool is_null;
		converted.name = NameStr(column.name);
		Datum value = slot_getattr(row, column.number, &is_null);
		put_pair(pairs, &n, json_string(converted.name),
				 is_null ? json_null() : value_of_column(i, value));
	}
	error_context_stack = context.previous;
	return json_object(pairs, n);
}

/* ---- payloads ---- */

/* Error context callback: the whole document is too long. */
static void
say_document(void *watch)
{
	errcontext("JSON of a row of watched table %s", static_cast<const Watch *>(watch)->table);
	if (geterrcode() == ERRCODE_PROGRAM_LIMIT_EXCEEDED)
		errhint("Name fewer columns in the argument columns of pgq_watch_table.");
}

static Jsonb *
document_of(const Watch &watch, JsonbPair *pairs, int n)
{
	ErrorContextCallback context = {error_context_stack, say_document, const_cast<Watch *>(&watch)};
	JsonbValue document = json_object(pairs, n);
	error_context_stack = &context;
	Jsonb *json = JsonbValueToJsonb(&document);
	error_context_stack = context.previous;
	return json;
}

/* The keys of a payload stand in the order of a jsonb object: by length, then by bytes. */
Jsonb *
RowJson::payload(ChangeOp op, TupleTableSlot *old_row, TupleTableSlot *new_row)
{
	static constexpr const char *ops[] = {"INSERT", "UPDATE", "DELETE"};
	JsonbPair pairs[5];
	int n = 0;
	TupleTableSlot *row = new_row != nullptr ? new_row : old_row;
	put_pair(pairs, &n, json_string("op"), json_string(ops[static_cast<int>(op)]));
	put_pair(pairs, &n, json_string("key"),
			 watch_.columns.has_key ? object_of(row, &WatchedColumn::in_key) : json_null());
	put_pair(pairs, &n, json_string("new"),
			 new_row != nullptr ? object_of(new_row, &WatchedColumn::in_image) : json_null());
	put_pair(pairs, &n, json_string("old"),
			 old_row != nullptr ? object_of(old_row, &WatchedColumn::in_image) : json_null());
	put_pair(pairs, &n, json_string("table"), json_string(watch_.table));
	return document_of(watch_, pairs, n);
}

Jsonb *
RowJson::payload_of_key(TupleTableSlot *row)
{
	JsonbPair pairs[2];
	int n = 0;
	put_pair(pairs, &n, json_string("key"),
			 watch_.columns.has_key ? object_of(row, &WatchedColumn::in_key) : json_null());
	put_pair(pairs, &n, json_string("table"), json_string(watch_.table));
	return document_of(watch_, pairs, n);
}

} // namespace pgq
