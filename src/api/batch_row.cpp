/*
 * Triggers of pgq_ext.job_batch, for rows of batches that SQL statements write directly, not
 * through the functions of the extension: a restore, logical replication, statements of the owner.
 */
#include "api/maker.h"
#include "api/trigger_data.h"
#include "catalog/owner_sql.h"
#include "catalog/tables.h"
#include "engine/shared.h"
#include "rows/deleted_member.h"
#include "txn/effects.h"
#include "worker/worker.h"

namespace pgq {

static int64
batch_id_of(const TriggerData *data, HeapTuple row)
{
	Datum value;
	return value_of(data, row, "batch_id", INT8OID, &value) ? DatumGetInt64(value) : 0;
}

/*
 * Return the row with `restored` set and without due_at: in the row of a dump, both columns have
 * the values of the dumped database. The scheduler computes due_at again.
 */
static HeapTuple
as_restored(const TriggerData *data, HeapTuple row)
{
	TupleDesc desc = RelationGetDescr(data->tg_relation);
	int columns[] = {SPI_fnumber(desc, "restored"), SPI_fnumber(desc, "due_at")};
	Datum values[] = {BoolGetDatum(true), Datum{0}};
	bool nulls[] = {false, true};
	if (columns[0] <= 0 || SPI_gettypeid(desc, columns[0]) != BOOLOID || columns[1] <= 0)
		return row;
	return heap_modify_tuple_by_cols(row, desc, 2, columns, values, nulls);
}

static void
refuse_other_id(const TriggerData *data)
{
	if (batch_id_of(data, data->tg_trigtuple) != batch_id_of(data, data->tg_newtuple))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("the id of a batch cannot be changed"),
						errdetail("The members of the batch refer to the batch by its id.")));
}

/* ---- deletion ---- */

/*
 * Return whether the table has a row of that batch; with batch_id 0, of any batch that is in
 * pgq_ext.job_batch. False if the table has no column for batches.
 */
static bool
has_members(const char *table, int64 batch_id)
{
	Oid relid = get_relname_relid(table, get_namespace_oid("pgq_ext", true));
	if (!OidIsValid(relid) || get_attnum(relid, "batch_id") == InvalidAttrNumber)
		return false;
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(batch_id), false}};
	const char *sql =
		batch_id != 0 ? "SELECT FROM pgq_ext.%s WHERE batch_id OPERATOR(pg_catalog.=) $1 LIMIT 1"
					  : "SELECT FROM pgq_ext.job_batch b WHERE EXISTS (SELECT FROM pgq_ext.%s j "
						"WHERE j.batch_id OPERATOR(pg_catalog.=) b.batch_id) LIMIT 1";
	return spi_execute(psprintf(sql, table), batch_id != 0 ? arguments : nullptr,
					   batch_id != 0 ? 1 : 0) > 0;
}

static bool
has_pending()
{
	return spi_execute("SELECT FROM pgq_ext.job_batch WHERE pending LIMIT 1", nullptr, 0) > 0;
}

[[noreturn]] static void
complain_of_pending(const char *message)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE), errmsg("%s", message),
			 errhint("Close the batch, and wait until its members have ended. If the batch can "
					 "then still get a callback, delete or redrive its dead letters.")));
}

[[noreturn]] static void
complain_of_members(const char *message)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE), errmsg("%s", message),
					errhint("Look for the batch_id in pgq_ext.job and pgq_ext.dead_job.")));
}

static void
refuse_deletion(const TriggerData *data)
{
	Datum pending;
	int64 batch_id = batch_id_of(data, data->tg_trigtuple);
	if (value_of(data, data->tg_trigtuple, "pending", BOOLOID, &pending) && DatumGetBool(pending))
		complain_of_pending(
			psprintf("batch %lld can still get a callback", static_cast<long long>(batch_id)));
	bool has = false;
	with_spi_as(data->tg_relation->rd_rel->relowner, [&] {
		find_by_index();
		has = has_members("job", batch_id) || has_members("dead_job", batch_id);
	});
	if (has)
		complain_of_members(psprintf("batch %lld has members", static_cast<long long>(batch_id)));
}

static void
refuse_truncation(const TriggerData *data)
{
	bool pending = false;
	bool has = false;
	with_spi_as(data->tg_relation->rd_rel->relowner, [&] {
		pending = has_pending();
		has = has_members("job", 0) || has_members("dead_job", 0);
	});
	if (pending)
		complain_of_pending("there are batches that can still get a callback");
	if (has)
		complain_of_members("there are batches that have members");
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_job_batch_changed);
PG_FUNCTION_INFO_V1(pgq_job_batch_kept);

/*
 * Fires before each INSERT and UPDATE of a row, also if a statement of the extension writes the
 * row.
 */
PGDLLEXPORT Datum
pgq_job_batch_changed(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "job_batch_changed");
	HeapTuple row = row_of(data);
	if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		running_statement() == StatementKind::kBatch)
		return PointerGetDatum(row);
	if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		row = as_restored(data, with_maker(data, row));
	else
	{
		refuse_other_id(data);
		if (has_other_maker(RelationGetDescr(data->tg_relation), data->tg_trigtuple, row))
			row = with_maker(data, row);
	}
	if (shared != nullptr && !is_scheduler())
		tell_batch_at_commit(batch_id_of(data, row), BatchNews::kChange, 0);
	return PointerGetDatum(row);
}

/*
 * Fires before each DELETE of a row, and before TRUNCATE. Statements of the extension and of logical
 * replication do not fire it.
 */
PGDLLEXPORT Datum
pgq_job_batch_kept(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "job_batch_kept");
	if (TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		refuse_truncation(data);
	else
		refuse_deletion(data);
	return PointerGetDatum(row_of(data));
}
}
