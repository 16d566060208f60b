/*
 * Functions that read shared memory for the view health (schema/35_health.sql). Also the function
 * that says why a ready job waits, for the view job_status.
 */
#include "api/args.h"
#include "api/result_rows.h"
#include "catalog/owner_sql.h"
#include "catalog/queue_row.h"
#include "catalog/reader.h"
#include "catalog/shape.h"
#include "catalog/version.h"
#include "engine/copies.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "rows/key_period.h"

namespace pgq {

/* ---- processes ---- */

/*
 * Return the pid of a process; 0 if there is none. process: my_procno() + 1 of the process; 0: no
 * process.
 */
static int32
pid_of_process(const pg_atomic_uint32 &process)
{
	uint32 n = value_of(process);
	return n == 0 ? 0 : ProcGlobal->allProcs[n - 1].pid;
}

namespace {

enum class WorkersColumn
{
	kLauncher,
	kScheduler,
	kMissing,
	kColumns
};

} // namespace

static void
put_workers(ResultRows *rows, const Database *db)
{
	using enum WorkersColumn;
	ResultRow<WorkersColumn> row;
	int32 launcher = pid_of_process(shared->launcher);
	int32 scheduler = pid_of_process(db->scheduler);
	row.set_if(launcher != 0, kLauncher, launcher);
	row.set_if(scheduler != 0, kScheduler, scheduler);
	row.set(kMissing, static_cast<int32>(value_of(shared->missing_schedulers)));
	rows->put(row);
}

/* ---- late leases ---- */

namespace {

enum class LateColumn
{
	kQueueId,
	kLost,
	kLostBy,
	kOpen,
	kOpenBy,
	kOpenPid,
	kColumns
};

} // namespace

static double
seconds(int64 microseconds)
{
	return static_cast<double>(microseconds) / USECS_PER_SEC;
}

static void
put_late_leases(ResultRows *rows, const QueueRef &ref)
{
	using enum LateColumn;
	LateLeases late;
	copy_late_leases(ref, monotonic_now(), &late);
	if (late.lost + late.open == 0)
		return;
	ResultRow<LateColumn> row;
	row.set(kQueueId, ref.queue_id);
	row.set(kLost, late.lost);
	row.set_datum(kLostBy, Float8GetDatum(seconds(late.lost_by)));
	row.set(kOpen, late.open);
	row.set_datum(kOpenBy, Float8GetDatum(seconds(late.open_by)));
	row.set_if(late.open_pid != 0, kOpenPid, late.open_pid);
	rows->put(row);
}

/* ---- unknown hand-outs (rate limits) ---- */

namespace {

enum class UnknownColumn
{
	kQueueId,
	kUntil,
	kColumns
};

} // namespace

static void
put_unknown_starts(ResultRows *rows, const QueueRef &ref)
{
	using enum UnknownColumn;
	int64 until = 0;
	int64 monotonic = monotonic_now();
	(void) look_at_queue(ref, [&](const Queue &queue) { until = queue.unknown_until; });
	if (until <= monotonic)
		return;
	ResultRow<UnknownColumn> row;
	row.set(kQueueId, ref.queue_id);
	row.set(kUntil, wall_now() + (until - monotonic));
	rows->put(row);
}

/* ---- skipped jobs (topics) ---- */

namespace {

enum class SkipColumn
{
	kQueueId,
	kSkipped,
	kLastSkipAt,
	kColumns
};

} // namespace

static void
put_skips(ResultRows *rows, const QueueRef &ref, StatsCopy *copy)
{
	using enum SkipColumn;
	if (!copy_stats(ref, copy) || copy->last_skip_at == 0)
		return;
	ResultRow<SkipColumn> row;
	row.set(kQueueId, ref.queue_id);
	row.set(kSkipped, copy->of(Call::kSkipped));
	row.set(kLastSkipAt, copy->last_skip_at);
	rows->put(row);
}

/* ---- tables ---- */

/*
 * Raise the error that there are queues, but the table of jobs has no segments: the jobs are lost,
 * or not restored yet.
 */
[[noreturn]] static void
complain_without_segments(const QueueRow *queues, int n)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("queue \"%s\"%s no tables to keep jobs in", queues[0].name,
					n > 1 ? " and others have" : " has"),
			 errhint("Restore the tables pgq_ext.job_0, pgq_ext.job_1 and so on, with their jobs, "
					 "from a dump. Or call pgq_create_queue with a new name: it creates the "
					 "missing tables again, but empty, so their jobs are lost.")));
}

/* ---- jobs ahead ---- */

/*
 * Describe what a ready job waits for; nullptr: the job waits for nothing, or the reason is
 * unknown. group_is_full: shared memory says that the job's group is full. The view job_status
 * calls pgq_behind() only if the group is not full according to the table. If memory and table
 * differ, SQL has deleted the row of a job in work of the group, or has moved the row to another
 * queue.
 */
static const char *
words_of(const Schedule::Ahead &ahead, bool group_is_full)
{
	if (group_is_full)
		return "one of the jobs of its group in work (group_concurrency, fifo), which is not in "
			   "the queue any more";
	if (ahead.jobs == 0)
		return nullptr;
	return psprintf("behind %u %s%s", ahead.jobs, ahead.jobs == 1 ? "job" : "jobs",
					ahead.or_more ? " or more" : "");
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_library_version);
PG_FUNCTION_INFO_V1(pgq_library_serves);
PG_FUNCTION_INFO_V1(pgq_verify_tables);
PG_FUNCTION_INFO_V1(pgq_workers);
PG_FUNCTION_INFO_V1(pgq_late_leases);
PG_FUNCTION_INFO_V1(pgq_unknown_starts);
PG_FUNCTION_INFO_V1(pgq_skip_entries);
PG_FUNCTION_INFO_V1(pgq_behind);

/* Works even if this library does not support the installed version of the SQL objects. */
PGDLLEXPORT Datum
pgq_library_version(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.library_version()");
	PG_RETURN_TEXT_P(cstring_to_text(PGQ_VERSION));
}

PGDLLEXPORT Datum
pgq_library_serves(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.library_serves(text)");
	PG_RETURN_BOOL(!PG_ARGISNULL(0) && is_served(text_to_cstring(PG_GETARG_TEXT_PP(0))));
}

/* If the extension's tables are not as expected, raise the same error as other functions. */
PGDLLEXPORT Datum
pgq_verify_tables(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.verify_tables()");
	const Tables &t = tables();
	int n;
	QueueRow none;
	t.require_all();
	const QueueRow *queues = read_queue_rows(t, &n);
	/* No queue has an empty name: this look raises an error if the index of names is missing. */
	(void) read_queue_row(t, "", &none);
	require_period_index();
	require_whole_segments();
	if (n > 0 && !t.has_segments)
		complain_without_segments(queues, n);
	(void) common_owner();
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_workers(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.workers()");
	ResultRows rows(fcinfo);
	put_workers(&rows, tables().database);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_late_leases(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.late_leases()");
	ResultRows rows(fcinfo);
	for_each_visible_queue(tables().database,
						   [&](const QueueRef &ref) { put_late_leases(&rows, ref); });
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_unknown_starts(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.unknown_starts()");
	ResultRows rows(fcinfo);
	for_each_visible_queue(tables().database,
						   [&](const QueueRef &ref) { put_unknown_starts(&rows, ref); });
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_skip_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.skip_entries()");
	ResultRows rows(fcinfo);
	auto *copy = static_cast<StatsCopy *>(palloc(sizeof(StatsCopy)));
	for_each_visible_queue(tables().database,
						   [&](const QueueRef &ref) { put_skips(&rows, ref, copy); });
	return (Datum) 0;
}

/* Internal function for the view job_status: says why a ready job is not handed out yet. */
PGDLLEXPORT Datum
pgq_behind(PG_FUNCTION_ARGS)
{
	static constexpr uint32 kMost = 1000;
	start_verb("pgq_ext.behind()");
	require_reader(fcinfo, {"job_status"});
	QueueRef ref;
	if (!find_attached_queue(tables().database, DatumGetInt32(required(fcinfo, 0, "queue_id")),
							 &ref) ||
		!may_see(ref.queue_id))
		PG_RETURN_NULL();
	Key key = {.priority = DatumGetInt32(required(fcinfo, 1, "priority")),
			   .run_at = DatumGetTimestampTz(required(fcinfo, 2, "run_at")),
			   .job_id = DatumGetInt64(required(fcinfo, 3, "job_id"))};
	Hint hint = {.key = key, .group = given(fcinfo, 4) ? PG_GETARG_INT64(4) : 0};
	const char *words = words_of(copy_ahead_of(ref, hint, kMost), is_group_full(ref, hint.group));
	if (words == nullptr)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(words));
}
}
