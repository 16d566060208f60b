/*
 * pgq_parents; and the trigger of pgq_ext.job_dependency and pgq_ext.job_outcome, for rows that SQL
 * statements write directly.
 */
#include "jobs/parents.h"
#include "api/args.h"
#include "api/job_list.h"
#include "api/result_rows.h"
#include "api/trigger_data.h"
#include "catalog/tables.h"
#include "engine/child_watch.h"
#include "txn/effects.h"

namespace pgq {

namespace {

enum class ParentColumn : uint8
{
	kJobId,
	kRef,
	kState,
	kResult,
	kError,
	kColumns,
};

} // namespace

static ResultRow<ParentColumn>
row_of_parent(const ParentState &parent)
{
	ResultRow<ParentColumn> row;
	row.set(ParentColumn::kJobId, parent.parent_id);
	row.set(ParentColumn::kState, parent.state);
	if (parent.has_ref)
		row.set_datum(ParentColumn::kRef, parent.ref);
	if (parent.has_result)
		row.set_datum(ParentColumn::kResult, parent.result);
	if (parent.has_error)
		row.set_datum(ParentColumn::kError, parent.error);
	return row;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_parents);
PG_FUNCTION_INFO_V1(pgq_dependency_came);

PGDLLEXPORT Datum
pgq_parents(PG_FUNCTION_ARGS)
{
	start_write("pgq_parents()");
	ResultRows rows(fcinfo);
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	ParentState *parents;
	int n;
	if (!find_parents(job_id, token, &parents, &n))
		complain_stale(job_id, token);
	for (int i = 0; i < n; i++)
	{
		ResultRow<ParentColumn> row = row_of_parent(parents[i]);
		rows.put(row);
	}
	return Datum{0};
}

/*
 * Fires before each INSERT of a row by SQL, as in a restore or by logical replication. The functions of
 * the extension insert without the executor, which fires no trigger. The statement has locked the table
 * in RowExclusiveLock.
 */
PGDLLEXPORT Datum
pgq_dependency_came(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "dependency_came");
	HeapTuple row = row_of(data);
	if (shared == nullptr || !TRIGGER_FIRED_BEFORE(data->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		return PointerGetDatum(row);
	const Tables *t = tables_if_attached();
	note_rows_came(t != nullptr ? t->database : nullptr);
	if (t == nullptr)
		return PointerGetDatum(row);
	expect_children(t->database);
	tell_all_children_at_commit();
	return PointerGetDatum(row);
}
}
