/*
 * pgq_check, which compares shared memory with the rows of the tables, and each number of entries
 * that shared memory keeps with the entries themselves. Also the function behind the view capacity,
 * which shows how full shared memory is.
 */
#include "api/args.h"
#include "api/result_rows.h"
#include "catalog/owner_sql.h"
#include "catalog/reader.h"
#include "engine/audit.h"
#include "load/attach.h"
#include "load/count.h"
#include "load/reconcile.h"
#include "pg/scope.h"
#include "rows/job.h"

namespace pgq {

/* ---- findings ---- */

static void report(ResultRows *result, const char *format, ...) pg_attribute_printf(2, 3);

static void
report(ResultRows *result, const char *format, ...)
{
	char line[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	result->put(CStringGetTextDatum(line));
}

static long long
number(int64 n)
{
	return n;
}

/* ---- leases and counters ---- */

static void
check_memory(ResultRows *result, const QueueRef &ref)
{
	/*
	 * Compare each number in the queue's slot with the entries that it counts: leases, then
	 * waiters, then jobs that are being ended.
	 */
	Audit a = audit_queue(ref, wall_now());
	const char *queue = ref.queue->name;
	if (!a.current)
		return;
	if (a.foreign_job != 0)
		report(result, "queue \"%s\": job %lld has two leases", queue, number(a.foreign_job));
	if (a.claimed != a.leased)
		report(result, "queue \"%s\": %lld jobs are leased, the counter says %lld", queue,
			   number(a.claimed), number(a.leased));
	if (a.unheld != a.unheld_kept)
		report(result, "queue \"%s\": %lld leases hold no job, the counter says %lld", queue,
			   number(a.unheld), number(a.unheld_kept));
	if (a.parked != a.parked_count)
		report(result, "queue \"%s\": %lld jobs are parked, the counter says %lld", queue,
			   number(a.parked), number(a.parked_count));
	if (a.slots != a.running)
		report(result, "queue \"%s\": %lld jobs run, the counter says %lld", queue, number(a.slots),
			   number(a.running));
	if (a.grouped != a.in_groups)
		report(result, "queue \"%s\": %lld jobs run in groups, their counters say %lld", queue,
			   number(a.grouped), number(a.in_groups));
	if (a.grouped_claims != a.in_group_claims)
		report(result,
			   "queue \"%s\": claims have %lld jobs of groups in hand, their counters say %lld",
			   queue, number(a.grouped_claims), number(a.in_group_claims));
	if (a.in_claims != a.claiming)
		report(result, "queue \"%s\": claims have %lld jobs in hand, the counter says %lld", queue,
			   number(a.in_claims), number(a.claiming));
	if (a.listed != a.waiting)
		report(result, "queue \"%s\": %lld claims are waiting, the counter says %lld", queue,
			   number(a.listed), number(a.waiting));
	if (a.handed_out != a.ended + a.in_hand)
		report(result,
			   "queue \"%s\": %lld jobs were handed out, but %lld have ended and %lld are in hand",
			   queue, number(a.handed_out), number(a.ended), number(a.in_hand));
}

/*
 * Return whether both audits show the same counts, without a recount between them. Then the counts
 * can be compared with rows that were read between the audits.
 */
static bool
is_same_count(const Audit &a, const Audit &b)
{
	return a.current && b.current && b.counted && a.live == b.live &&
		   a.waiting_jobs == b.waiting_jobs && a.blocked_jobs == b.blocked_jobs &&
		   a.dead == b.dead && a.leased == b.leased && a.reserved == b.reserved &&
		   a.count_serial == b.count_serial;
}

static int64
in_work_and_due(const Audit &a)
{
	return a.leased - a.unheld - a.ahead;
}

static int64
due_jobs(const Audit &a)
{
	return a.live - a.waiting_jobs - a.blocked_jobs;
}

/*
 * Return whether the counts in memory fit the rows: each count equals the number of rows, and no
 * more jobs are in work than are due.
 */
static bool
agrees(const Audit &a, const LiveRows &rows)
{
	return a.live == rows.live && a.waiting_jobs == rows.waiting &&
		   a.blocked_jobs == rows.blocked && a.dead == rows.dead &&
		   in_work_and_due(a) <= due_jobs(a);
}

static void
report_counts(ResultRows *result, const char *queue, const Audit &a, const LiveRows &rows)
{
	auto compare = [&](const char *what, int64 there, int64 counted) {
		if (there != counted)
			report(result, "queue \"%s\": %lld %s, the counter says %lld", queue, number(there),
				   what, number(counted));
	};
	compare("jobs live", rows.live, a.live);
	compare("jobs wait for their time", rows.waiting, a.waiting_jobs);
	compare("jobs are blocked", rows.blocked, a.blocked_jobs);
	compare("dead letters are there", rows.dead, a.dead);
	if (in_work_and_due(a) > due_jobs(a))
		report(result, "queue \"%s\": %lld jobs are leased, and %lld live that are due", queue,
			   number(in_work_and_due(a)), number(due_jobs(a)));
}

static void
check_counts(ResultRows *result, const QueueRef &ref)
{
	/*
	 * A commit becomes visible before the counts include its rows. So compare several times before
	 * reporting a difference.
	 */
	static constexpr long kBetweenLooks = 200 * 1000;
	static constexpr int kLooks = 10;
	TimestampTz now = wall_now();
	Audit before = audit_queue(ref, now);
	for (int i = 0; before.current && before.counted; i++)
	{
		LiveRows rows = count_rows_again(ref, now);
		Audit after = audit_queue(ref, now);
		if (agrees(before, rows) || !is_same_count(before, after))
			return;
		if (i == kLooks)
			return report_counts(result, ref.queue->name, before, rows);
		pg_usleep(kBetweenLooks);
		CHECK_FOR_INTERRUPTS();
	}
}

/* ---- rows without a hint ---- */

static void
report_forgotten(void *context, const Suspect &suspect)
{
	report(static_cast<ResultRows *>(context), "queue \"%s\": job %lld is missing in memory",
		   suspect.ref.queue->name, number(suspect.hint.key.job_id));
}

static void
check_rows(ResultRows *result)
{
	/*
	 * Pause (microseconds) between two tries. In this time, transactions that have committed file
	 * their hints.
	 */
	static constexpr long kBetweenLooks = 500 * 1000;
	static constexpr int kLooks = 20;
	auto *state = static_cast<Reconciliation *>(palloc0(sizeof(Reconciliation)));
	for (bool more = true; more;)
	{
		more = reconcile_rows(state, INT_MAX);
		if (state->n > 0)
			pg_usleep(kBetweenLooks);
		/*
		 * While a long transaction is open, repair_forgotten() cannot decide whether memory has
		 * lost the hint of a row. Give up after kLooks tries: the duty reconcile of the scheduler
		 * will check the rows again.
		 */
		for (int i = 0; i < kLooks && !repair_forgotten(state, report_forgotten, result); i++)
		{
			pg_usleep(kBetweenLooks);
			CHECK_FOR_INTERRUPTS();
		}
		state->n = 0;
	}
	if (state->writers != nullptr)
		pfree(state->writers);
	pfree(state);
}

static void
check_queues_of_rows(ResultRows *result, const char *table, const char *what)
{
	as_owner([&] {
		uint64 n = spi_execute(
			psprintf(
				"SELECT queue_id, pg_catalog.count(*) FROM pgq_ext.%s t WHERE NOT EXISTS (SELECT "
				"FROM pgq_ext.queue q WHERE q.queue_id OPERATOR(pg_catalog.=) t.queue_id) "
				"GROUP BY 1",
				table),
			nullptr, 0);
		for (uint64 i = 0; i < n; i++)
		{
			int32 queue_id = DatumGetInt32(spi_value(static_cast<int>(i), 1, INT4OID));
			int64 count = DatumGetInt64(spi_value(static_cast<int>(i), 2, INT8OID));
			report(result, "%lld %s have queue_id %d, and there is no such queue", number(count),
				   what, queue_id);
		}
	});
}

/* ---- batches ---- */

/* Report the number that the query returns, unless it is 0. */
static void
report_number(ResultRows *result, const char *query, const char *fault)
{
	(void) spi_execute(query, nullptr, 0);
	int64 n = DatumGetInt64(spi_value(0, 1, INT8OID));
	if (n > 0)
		report(result, "%lld %s", number(n), fault);
}

/* Report members and notes of batches that do not exist. */
static void
check_batches(ResultRows *result)
{
	static const struct
	{
		bool has_column; /* the query reads the column batch_id of a table of jobs */
		const char *query;
		const char *fault;
	} checks[] = {
		{true,
		 "SELECT pg_catalog.count(*) FROM pgq_ext.job j WHERE j.batch_id IS NOT NULL AND NOT "
		 "EXISTS "
		 "(SELECT FROM pgq_ext.job_batch b WHERE b.batch_id OPERATOR(pg_catalog.=) j.batch_id)",
		 "jobs are members of batches that do not exist"},
		{true,
		 "SELECT pg_catalog.count(*) FROM pgq_ext.dead_job d WHERE d.batch_id IS NOT NULL AND NOT "
		 "EXISTS (SELECT FROM pgq_ext.job_batch b "
		 "WHERE b.batch_id OPERATOR(pg_catalog.=) d.batch_id)",
		 "dead letters are members of batches that do not exist"},
		{false,
		 "SELECT pg_catalog.count(*) FROM pgq_ext.batch_note n WHERE NOT EXISTS (SELECT FROM "
		 "pgq_ext.job_batch b WHERE b.batch_id OPERATOR(pg_catalog.=) n.batch_id)",
		 "notes are about batches that do not exist"},
	};
	bool has_batches = look_at_tables().has_batches;
	bool has_tables = OidIsValid(look_at_tables().job_batch());
	as_owner([&] {
		for (const auto &check : checks)
			if (has_tables && (has_batches || !check.has_column))
				report_number(result, check.query, check.fault);
	});
}

namespace {

enum class CapacityColumn
{
	kName,
	kUsed,
	kPeak,
	kBound,
	kSetting,
	kEntryBytes,
	kColumns
};

} // namespace

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_check);
PG_FUNCTION_INFO_V1(pgq_capacity_entries);

PGDLLEXPORT Datum
pgq_check(PG_FUNCTION_ARGS)
{
	start_verb("pgq_check()");
	const Tables &t = tables();
	ResultRows result(fcinfo);
	for_each_queue(t.database, [&](const QueueRef &ref) { check_memory(&result, ref); });
	for_each_queue(t.database, [&](const QueueRef &ref) { check_counts(&result, ref); });
	check_rows(&result);
	for (const RingSpec &ring : rings)
		check_queues_of_rows(&result, ring.table, ring.rows);
	check_batches(&result);
	return (Datum) 0;
}

/* Internal function: returns the rows of the view capacity. */
PGDLLEXPORT Datum
pgq_capacity_entries(PG_FUNCTION_ARGS)
{
	require_preloaded();
	require_reader(fcinfo, {"capacity"});
	ResultRows result(fcinfo);
	Bound bounds[kBounds];
	read_bounds(bounds);
	for (const Bound &b : bounds)
	{
		using enum CapacityColumn;
		ResultRow<CapacityColumn> row;
		row.set(kName, b.name);
		row.set(kUsed, b.used);
		row.set(kPeak, b.peak);
		row.set(kBound, b.bound);
		row.set(kSetting, b.guc);
		row.set(kEntryBytes, b.entry_bytes);
		result.put(row);
	}
	return (Datum) 0;
}
}
