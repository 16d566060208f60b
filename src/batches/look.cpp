#include "batches/look.h"

#include "catalog/owner_sql.h"
#include "enqueue/job_json.h"
#include "pg/clock.h"
#include "rows/batch_row.h"
#include "rows/deleted_member.h"

namespace pgq {

static SpiArgument
number(int64 value)
{
	return {INT8OID, Int64GetDatum(value), false};
}

static SpiArgument
moment(TimestampTz time)
{
	return {TIMESTAMPTZOID, TimestampTzGetDatum(time), time == DT_NOEND};
}

static SpiArgument
words(const char *text)
{
	return {TEXTOID, text != nullptr ? CStringGetTextDatum(text) : (Datum) 0, text == nullptr};
}

/* ---- the row ---- */

#define PGQ_BATCH_COLUMNS                                                                          \
	"closed_at IS NOT NULL, cancelled_at IS NOT NULL, succeeded_at IS NOT NULL, failed_at IS NOT " \
	"NULL, finished_at IS NOT NULL, pending, restored, due_at, failures"

/* Fill *batch from the columns of PGQ_BATCH_COLUMNS. */
static void
fill_batch(int64 batch_id, BatchState *batch)
{
	bool is_null;
	auto flag = [](int column) { return DatumGetBool(spi_value(0, column, BOOLOID)); };
	*batch = {};
	batch->batch_id = batch_id;
	batch->marks.closed = flag(1);
	batch->marks.cancelled = flag(2);
	for (int event = 0; event < kBatchEvents; event++)
		batch->marks.done[event] = flag(3 + event);
	batch->pending = flag(6);
	batch->restored = flag(7);
	Datum due_at = spi_value(0, 8, TIMESTAMPTZOID, &is_null);
	batch->due_at = is_null ? DT_NOEND : DatumGetTimestampTz(due_at);
	batch->failures = DatumGetInt32(spi_value(0, 9, INT4OID));
}

bool
read_batch(int64 batch_id, BatchState *batch, bool *died)
{
	static KeptPlan plan;
	const SpiArgument arguments[] = {number(batch_id)};
	bool found = false;
	as_owner([&] {
		found = spi_execute_kept(
					&plan,
					"SELECT " PGQ_BATCH_COLUMNS ", EXISTS (SELECT FROM pgq_ext.batch_note n WHERE "
					"n.batch_id OPERATOR(pg_catalog.=) $1 AND n.what OPERATOR(pg_catalog.=) 2) "
					"FROM pgq_ext.job_batch b WHERE b.batch_id OPERATOR(pg_catalog.=) $1",
					arguments) > 0;
		if (!found)
			return;
		fill_batch(batch_id, batch);
		*died = DatumGetBool(spi_value(0, 10, BOOLOID));
	});
	return found;
}

static bool
has_batch(int64 batch_id)
{
	BatchRow row;
	return find_batch(batch_id, &row);
}

static void
fill_callbacks(BatchState *batch, MemoryContext caller)
{
	bool is_null;
	Datum maker = spi_value(0, 10, OIDOID, &is_null);
	batch->maker = is_null ? InvalidOid : DatumGetObjectId(maker);
	Datum name = spi_value(0, 11, TEXTOID);
	MemoryContext previous = MemoryContextSwitchTo(caller);
	batch->maker_name = TextDatumGetCString(name);
	for (int event = 0; event < kBatchEvents; event++)
	{
		Datum callback = spi_value(0, 12 + event, JSONBOID, &is_null);
		batch->callbacks[event] = is_null ? nullptr : DatumGetJsonbPCopy(callback);
	}
	MemoryContextSwitchTo(previous);
}

RowSeen
lock_batch_row(int64 batch_id, BatchState *batch)
{
	static KeptPlan plan;
	MemoryContext caller = CurrentMemoryContext;
	const SpiArgument arguments[] = {number(batch_id)};
	bool found = false;
	as_owner([&] {
		found = spi_execute_kept(&plan,
								 "SELECT " PGQ_BATCH_COLUMNS
								 ", maker, maker_name, on_success, on_failure, on_finish "
								 "FROM pgq_ext.job_batch WHERE batch_id OPERATOR(pg_catalog.=) $1 "
								 "FOR UPDATE SKIP LOCKED",
								 arguments) > 0;
		if (!found)
			return;
		fill_batch(batch_id, batch);
		fill_callbacks(batch, caller);
	});
	if (found)
		return RowSeen::kFound;
	return has_batch(batch_id) ? RowSeen::kLocked : RowSeen::kGone;
}

/* ---- members ---- */

MemberSight
look_at_members(int64 batch_id, int64 *member)
{
	static KeptPlan plan;
	const SpiArgument arguments[] = {number(batch_id)};
	MemberSight seen{};
	/* Use one statement, so that all numbers are of one snapshot. */
	as_owner([&] {
		bool is_null;
		(void) spi_execute_kept(
			&plan,
			"SELECT (SELECT j.job_id FROM pgq_ext.job j "
			"WHERE j.batch_id OPERATOR(pg_catalog.=) $1 ORDER BY j.batch_id DESC, j.job_id DESC "
			"LIMIT 1), "
			"EXISTS (SELECT FROM pgq_ext.dead_job d WHERE d.batch_id OPERATOR(pg_catalog.=) $1), "
			"EXISTS (SELECT FROM pgq_ext.batch_note n WHERE n.batch_id OPERATOR(pg_catalog.=) $1 "
			"AND n.what OPERATOR(pg_catalog.=) 2), "
			"EXISTS (SELECT FROM pgq_ext.batch_note n WHERE n.batch_id OPERATOR(pg_catalog.=) $1 "
			"AND n.what OPERATOR(pg_catalog.>) 2)",
			arguments);
		Datum job_id = spi_value(0, 1, INT8OID, &is_null);
		*member = is_null ? 0 : DatumGetInt64(job_id);
		seen = {.live = !is_null,
				.dead = DatumGetBool(spi_value(0, 2, BOOLOID)),
				.died = DatumGetBool(spi_value(0, 3, BOOLOID)),
				.lost = DatumGetBool(spi_value(0, 4, BOOLOID))};
	});
	return seen;
}

/* ---- callbacks ---- */

static constexpr const char *event_names[] = {"success", "failure", "finish"};

JobSpec
job_of_event(const Jsonb *callback, int64 batch_id, BatchEvent event, char **queue)
{
	JobSpec spec = job_of_callback(callback, callback_names[event], queue);
	Datum headers = DirectFunctionCall1(
		jsonb_in, CStringGetDatum(psprintf("{\"batch\": %lld, \"event\": \"%s\"}",
										   static_cast<long long>(batch_id), event_names[event])));
	Datum given;
	if (find_attribute(spec, "headers", &given))
	{
		if (!JB_ROOT_IS_OBJECT(DatumGetJsonbP(given)))
			ereport(
				ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("headers of a callback must be a JSON object"),
				 errhint("The scheduler adds the keys \"batch\" and \"event\" to the headers.")));
		headers = DirectFunctionCall2(jsonb_concat, given, headers);
	}
	set_attribute(&spec, "headers", headers);
	return spec;
}

/* ---- writing ---- */

int64
rest_after_failures(int32 failures)
{
	static constexpr int kMostDoublings = 6;
	return Min<int64, int64>(USECS_PER_SEC << Min(failures, kMostDoublings), USECS_PER_MINUTE);
}

void
write_batch(const BatchState &batch, const BatchMarks &before, const char *error)
{
	static KeptPlan plan;
	auto now_done = [&](BatchEvent event) {
		return SpiArgument{BOOLOID, BoolGetDatum(batch.marks.done[event] && !before.done[event]),
						   false};
	};
	/* Store the maker's present name, by which a restored dump finds the role. */
	const char *maker = OidIsValid(batch.maker) ? GetUserNameFromId(batch.maker, true) : nullptr;
	const SpiArgument arguments[] = {number(batch.batch_id),
									 now_done(kSuccess),
									 now_done(kFailure),
									 now_done(kFinish),
									 {BOOLOID, BoolGetDatum(batch.pending), false},
									 moment(batch.due_at),
									 {INT4OID, Int32GetDatum(batch.failures), false},
									 words(error),
									 words(maker)};
	as_owner([&] {
		with_statement_kind(StatementKind::kBatch, [&] {
			(void) spi_execute_kept(
				&plan,
				"UPDATE pgq_ext.job_batch SET "
				"succeeded_at = CASE WHEN $2 THEN pg_catalog.clock_timestamp() ELSE succeeded_at "
				"END, "
				"failed_at = CASE WHEN $3 THEN pg_catalog.clock_timestamp() ELSE failed_at END, "
				"finished_at = CASE WHEN $4 THEN pg_catalog.clock_timestamp() ELSE finished_at "
				"END, "
				"pending = $5, due_at = $6, failures = $7, last_error = $8, "
				"maker_name = COALESCE($9, maker_name) WHERE batch_id OPERATOR(pg_catalog.=) $1",
				arguments);
		});
	});
	CommandCounterIncrement();
}

void
write_restored(int64 batch_id, TimestampTz due_at)
{
	const SpiArgument arguments[] = {number(batch_id), moment(due_at)};
	as_owner([&] {
		with_statement_kind(StatementKind::kBatch, [&] {
			(void) spi_execute(
				"UPDATE pgq_ext.job_batch SET due_at = $2, restored = $2 IS NOT NULL "
				"WHERE batch_id OPERATOR(pg_catalog.=) $1 AND restored",
				arguments);
		});
	});
	CommandCounterIncrement();
}

void
write_look_error(int64 batch_id, const char *error)
{
	const SpiArgument arguments[] = {number(batch_id), words(error)};
	as_owner([&] {
		(void) spi_execute("UPDATE pgq_ext.job_batch SET due_at = pg_catalog.clock_timestamp() "
						   "OPERATOR(pg_catalog.+) interval '1 min', failures = failures "
						   "OPERATOR(pg_catalog.+) 1, "
						   "last_error = $2 WHERE batch_id OPERATOR(pg_catalog.=) $1 AND pending",
						   arguments);
	});
	CommandCounterIncrement();
}

/* ---- lists ---- */

template <int n>
static int
find_ids(const char *sql, const SpiArgument (&arguments)[n], int64 *batch_ids)
{
	int found = 0;
	as_owner([&] {
		found = static_cast<int>(spi_execute(sql, arguments));
		for (int i = 0; i < found; i++)
			batch_ids[i] = DatumGetInt64(spi_value(i, 1, INT8OID));
	});
	return found;
}

int
find_pending_batches(int64 after, int64 *batch_ids, int most)
{
	const SpiArgument arguments[] = {number(after), {INT4OID, Int32GetDatum(most), false}};
	return find_ids("SELECT batch_id FROM pgq_ext.job_batch WHERE pending "
					"AND batch_id OPERATOR(pg_catalog.>) $1 ORDER BY batch_id LIMIT $2",
					arguments, batch_ids);
}

int
find_members(int64 batch_id, int64 after, int64 *job_ids, int most)
{
	const SpiArgument arguments[] = {
		number(batch_id), number(after), {INT4OID, Int32GetDatum(most), false}};
	return find_ids("SELECT job_id FROM pgq_ext.job WHERE batch_id OPERATOR(pg_catalog.=) $1 "
					"AND job_id OPERATOR(pg_catalog.>) $2 ORDER BY batch_id, job_id LIMIT $3",
					arguments, job_ids);
}

int
find_due_batches(TimestampTz *from, TimestampTz now, int64 *batch_ids, int most)
{
	/* The clock was set back if a batch is due much later than a batch can be. */
	const SpiArgument arguments[] = {{TIMESTAMPTZOID, TimestampTzGetDatum(*from), false},
									 moment(now),
									 moment(now + kLatestDue),
									 {INT4OID, Int32GetDatum(most), false}};
	int n = 0;
	as_owner([&] {
		n = static_cast<int>(spi_execute(
			"SELECT batch_id, due_at FROM pgq_ext.job_batch WHERE pending "
			"AND due_at OPERATOR(pg_catalog.>) $1 AND (due_at OPERATOR(pg_catalog.<=) $2 OR "
			"due_at OPERATOR(pg_catalog.>) $3) ORDER BY due_at LIMIT $4",
			arguments));
		for (int i = 0; i < n; i++)
			batch_ids[i] = DatumGetInt64(spi_value(i, 1, INT8OID));
		*from = n == most ? DatumGetTimestampTz(spi_value(n - 1, 2, TIMESTAMPTZOID)) : DT_NOBEGIN;
	});
	return n;
}

TimestampTz
next_due_batch()
{
	TimestampTz next = DT_NOEND;
	as_owner([&] {
		if (spi_execute("SELECT due_at FROM pgq_ext.job_batch WHERE pending AND due_at IS NOT NULL "
						"ORDER BY due_at LIMIT 1",
						nullptr, 0) > 0)
			next = DatumGetTimestampTz(spi_value(0, 1, TIMESTAMPTZOID));
	});
	return next;
}

} // namespace pgq
