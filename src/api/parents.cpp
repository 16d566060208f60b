/*
 * pgq_parents; and the triggers of pgq_ext.job_dependency and pgq_ext.job_outcome, for rows that SQL
 * statements write directly.
 */
#include "jobs/parents.h"
#include "api/args.h"
#include "api/job_list.h"
#include "api/result_rows.h"
#include "api/trigger_data.h"
#include "catalog/owner_sql.h"
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

static constexpr Column parent_columns[] = {
	{"job_id", kInt8}, {"ref", kText}, {"state", kText}, {"result", kJsonb}, {"error", kText}};
static_assert(lengthof(parent_columns) == static_cast<int>(ParentColumn::kColumns));

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

/* ---- dependencies that SQL deletes ---- */

/*
 * Return whether pgq_ext.job has the columns of children. A database that was updated from version 0.1
 * lacks them until pgq_ext.add_batch_columns(), and has no children.
 */
static bool
has_child_columns(const TriggerData *data)
{
	Oid job = get_relname_relid("job", RelationGetNamespace(data->tg_relation));
	return OidIsValid(job) && get_attnum(job, "parents") != InvalidAttrNumber &&
		   get_attnum(job, "blocked") != InvalidAttrNumber;
}

/*
 * Lower the number of parents of the child. Otherwise the deleted dependency would count as one that is
 * missing, and the child would be cancelled. The trigger of pgq_ext.job tells the scheduler.
 */
static void
drop_parent(const TriggerData *data)
{
	Datum child_id;
	if (!has_child_columns(data) ||
		!value_of(data, data->tg_trigtuple, "child_id", INT8OID, &child_id))
		return;
	const SpiArgument arguments[] = {{INT8OID, child_id, false}};
	with_spi_as(data->tg_relation->rd_rel->relowner, [&] {
		find_by_index();
		(void) spi_execute("UPDATE pgq_ext.job SET parents = parents - 1 "
						   "WHERE job_id = $1 AND blocked IS NOT NULL AND parents > 0",
						   arguments);
	});
}

/* Raise 55006 if a blocked job has parents. */
static void
refuse_while_blocked(const TriggerData *data)
{
	bool any = false;
	if (has_child_columns(data))
		with_spi_as(data->tg_relation->rd_rel->relowner, [&] {
			any = spi_execute("SELECT FROM pgq_ext.job WHERE blocked IS NOT NULL AND parents > 0 "
							  "LIMIT 1",
							  nullptr, 0) > 0;
		});
	if (any)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE), errmsg("there are blocked jobs"),
						errhint("See pgq_ext.job_status for jobs in the state blocked.")));
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_parents);
PG_FUNCTION_INFO_V1(pgq_dependency_came);
PG_FUNCTION_INFO_V1(pgq_dependency_changed);

PGDLLEXPORT Datum
pgq_parents(PG_FUNCTION_ARGS)
{
	start_write("pgq_parents()");
	ResultRows rows(fcinfo, "parent", parent_columns);
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

/*
 * Fires before each UPDATE and DELETE of a row, and after TRUNCATE, by SQL of a user. If a dependency is
 * deleted, the child no longer waits for this parent: see "What does an administrator's SQL do?" in the
 * README of dependencies/.
 */
PGDLLEXPORT Datum
pgq_dependency_changed(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "dependency_changed");
	if (TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		refuse_while_blocked(data);
	else if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("a dependency between jobs cannot be changed"),
						errhint("Delete the dependency, or insert another one.")));
	else if (TRIGGER_FIRED_BY_DELETE(data->tg_event))
		drop_parent(data);
	return PointerGetDatum(row_of(data));
}
}
