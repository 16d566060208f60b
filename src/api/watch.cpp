/* pgq_watch_table, pgq_unwatch_table, the trigger function of watched tables, and the view pgq_ext.watch. */
#include "api/args.h"
#include "api/result_rows.h"
#include "catalog/own_object.h"
#include "catalog/reader.h"
#include "row_changes/fire.h"
#include "row_changes/watch_admin.h"
#include "row_changes/watch_list.h"

namespace pgq {

namespace {

enum class WatchColumn
{
	kRelation,
	kPartOf,
	kTarget,
	kColumnNames,
	kKey,
	kCoalescing,
	kTriggers,
	kStatus,
	kProblem,
	kColumns,
};

} // namespace

/* Return the names in the argument. Raises 22004 for NULL in the array, 22023 for a name that occurs twice. */
static List *
column_names(FunctionCallInfo fcinfo, int i, const char *argument)
{
	Datum *values;
	List *names = NIL;
	int n = elements_of(PG_GETARG_DATUM(i), TEXTOID, argument, &values);
	for (int j = 0; j < n; j++)
	{
		char *name = TextDatumGetCString(values[j]);
		ListCell *cell;
		foreach (cell, names)
			if (strcmp(static_cast<const char *>(lfirst(cell)), name) == 0)
				ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
								errmsg("column \"%s\" occurs twice in %s", name, argument)));
		names = lappend(names, name);
	}
	return names;
}

static WatchedNames
watched_names(FunctionCallInfo fcinfo)
{
	WatchedNames names{};
	names.all_columns = !given(fcinfo, 2);
	if (given(fcinfo, 2))
		names.columns = column_names(fcinfo, 2, "columns");
	if (given(fcinfo, 3) && (names.key = column_names(fcinfo, 3, "key")) == NIL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("key must not be empty"),
						errhint("Pass NULL for the primary key, or for a table without a key.")));
	return names;
}

/* ---- the view ---- */

static Datum
text_array(List *names)
{
	int n = 0;
	auto *values = static_cast<Datum *>(palloc((list_length(names) + 1) * sizeof(Datum)));
	auto *nulls = static_cast<bool *>(palloc((list_length(names) + 1) * sizeof(bool)));
	ListCell *cell;
	foreach (cell, names)
	{
		const char *name = static_cast<const char *>(lfirst(cell));
		nulls[n] = name == nullptr;
		values[n++] = name == nullptr ? Datum{0} : CStringGetTextDatum(name);
	}
	int lower = 1;
	if (n == 0)
		return PointerGetDatum(construct_empty_array(TEXTOID));
	return PointerGetDatum(
		construct_md_array(values, nulls, 1, &n, &lower, TEXTOID, -1, false, TYPALIGN_INT));
}

static void
put_watch(void *context, const ListedWatch &watch)
{
	ResultRow<WatchColumn> row;
	row.set(WatchColumn::kRelation, watch.relation);
	row.set_if(OidIsValid(watch.part_of), WatchColumn::kPartOf, watch.part_of);
	row.set(WatchColumn::kTarget, watch.target);
	if (watch.columns != NIL || watch.coalescing)
		row.set_datum(WatchColumn::kColumnNames, text_array(watch.columns));
	if (watch.key != NIL)
		row.set_datum(WatchColumn::kKey, text_array(watch.key));
	row.set(WatchColumn::kCoalescing, watch.coalescing);
	row.set_datum(WatchColumn::kTriggers, text_array(watch.triggers));
	row.set(WatchColumn::kStatus, watch.problem == nullptr ? "ok" : watch.fails ? "fail" : "warn");
	row.set_if(watch.problem != nullptr, WatchColumn::kProblem, watch.problem);
	static_cast<ResultRows *>(context)->put(row);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_watch_table);
PG_FUNCTION_INFO_V1(pgq_unwatch_table);
PG_FUNCTION_INFO_V1(pgq_watch_entries);
PG_FUNCTION_INFO_V1(pgq_row_changed);

PGDLLEXPORT Datum
pgq_watch_table(PG_FUNCTION_ARGS)
{
	start_write("pgq_watch_table()");
	Oid table = DatumGetObjectId(required(fcinfo, 0, "table"));
	WatchTarget target = target_of_argument(required(fcinfo, 1, "target"));
	watch_table(table, target, watched_names(fcinfo));
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_unwatch_table(PG_FUNCTION_ARGS)
{
	start_write("pgq_unwatch_table()");
	Oid table = DatumGetObjectId(required(fcinfo, 0, "table"));
	PG_RETURN_BOOL(unwatch_table(table, target_of_argument(required(fcinfo, 1, "target"))));
}

PGDLLEXPORT Datum
pgq_watch_entries(PG_FUNCTION_ARGS)
{
	require_preloaded();
	require_reader(fcinfo, {"watch"});
	ResultRows rows(fcinfo);
	list_watches(put_watch, &rows);
	return (Datum) 0;
}

/* Trigger of watched tables. A role with EXECUTE on the function, or a dump, may also create such a trigger. */
PGDLLEXPORT Datum
pgq_row_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("pgq_ext.row_changed() must be called as a trigger")));
	const auto *data = reinterpret_cast<const TriggerData *>(fcinfo->context);
	start_write("pgq_ext.row_changed()");
	enqueue_row_changes(data);
	return Datum{0};
}
}
