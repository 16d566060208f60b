#include "sync/run.h"

#include "catalog/owner_sql.h"
#include "pg/clock.h"
#include "sync/lock_row.h"
#include "txn/lock.h"

namespace pgq {

static constinit int keep_runs = 0;

void
runs_init()
{
	DefineCustomIntVariable("pgq_ext.keep_runs",
							"Finished runs of one name and period that are remembered.",
							"Of those before it is forgotten that they were done.", &keep_runs,
							1000, 1, 1000000, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
}

/*
 * Return the begin of the period that contains `time`. Periods are counted from 2000-01-01 UTC, as
 * date_bin() does; the server's timestamps have the same origin.
 */
TimestampTz
bucket_of(TimestampTz time, int64 period)
{
	int64 into = time % period;
	return time - (into < 0 ? into + period : into);
}

/* ---- rows ---- */

/*
 * Condition that finds the row of a run. $1: name; $2, $3: length and begin of the period, NULL for
 * a run that is done only once.
 */
#define THE_RUN(condition)                                                       \
	"WHERE name OPERATOR(pg_catalog.=) $1 AND period OPERATOR(pg_catalog.=) $2 " \
	"AND period_start OPERATOR(pg_catalog.=) $3 " condition
#define THE_RUN_FOR_EVER(condition) \
	"WHERE name OPERATOR(pg_catalog.=) $1 AND period IS NULL " condition

namespace {

struct RunStatement
{
	const char *periodic;
	const char *for_ever;
};

} // namespace
/*
 * Execute the variant of the statement for runs with a period, or the variant for runs without one.
 * more: arguments from $4 on. Returns the number of rows.
 */
static uint64
execute(const RunStatement &statement, const LockKey &key, const SpiArgument *more, int n)
{
	static constexpr int kMost = 8;
	bool periodic = key.period > 0;
	auto *period = static_cast<Interval *>(palloc0(sizeof(Interval)));
	period->time = key.period;
	SpiArgument arguments[kMost] = {{TEXTOID, CStringGetTextDatum(key.name), false},
									{INTERVALOID, IntervalPGetDatum(period), !periodic},
									{TIMESTAMPTZOID, TimestampTzGetDatum(key.bucket), !periodic}};
	Assert(3 + n <= kMost);
	for (int i = 0; i < n; i++)
		arguments[3 + i] = more[i];
	return spi_execute(periodic ? statement.periodic : statement.for_ever, arguments, 3 + n);
}

static bool
is_finished(const LockKey &key)
{
	static constexpr RunStatement statement = {
		"SELECT FROM pgq_ext.run " THE_RUN("AND finished_at IS NOT NULL"),
		"SELECT FROM pgq_ext.run " THE_RUN_FOR_EVER("AND finished_at IS NOT NULL")};
	bool finished = false;
	as_owner([&] { finished = execute(statement, key, nullptr, 0) > 0; });
	return finished;
}

/*
 * Delete old rows of the run. Keep the newest keep_runs rows of finished runs, the newest keep_runs
 * rows of unfinished runs, and each row whose run a session holds. Skip rows that another
 * transaction is deleting.
 */
static void
forget_old_runs(const LockKey &key)
{
	static constexpr char kForget[] =
		"DELETE FROM pgq_ext.run WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY("
		"SELECT l.ctid FROM pgq_ext.run l WHERE l.ctid OPERATOR(pg_catalog.=) ANY (ARRAY("
		"SELECT o.place FROM (SELECT r.ctid AS place, pg_catalog.row_number() OVER ("
		"PARTITION BY r.finished_at IS NULL ORDER BY r.period_start DESC) AS nth "
		"FROM pgq_ext.run r WHERE r.name OPERATOR(pg_catalog.=) $1 "
		"AND r.period OPERATOR(pg_catalog.=) $2 "
		"AND r.period_start OPERATOR(pg_catalog.<=) $3 AND NOT EXISTS ("
		"SELECT FROM pgq_ext.held_lock h WHERE h.name OPERATOR(pg_catalog.=) r.name "
		"AND h.token OPERATOR(pg_catalog.=) r.token)) o "
		"WHERE o.nth OPERATOR(pg_catalog.>) $4)) FOR UPDATE SKIP LOCKED))";
	static constexpr RunStatement statement = {kForget, nullptr};
	const SpiArgument kept[] = {{INT8OID, Int64GetDatum(keep_runs), false}};
	(void) execute(statement, key, kept, lengthof(kept));
}

/*
 * Count a try in the row of the run: the first try, or a new try because the try before did not
 * finish in time. period: as the caller wrote it.
 */
static void
note_start(const HeldLock &held, const char *owner, const Datum *period)
{
	static constexpr char kStart[] =
		"INSERT INTO pgq_ext.run AS r (name, period, period_start, token, owner, started_at, "
		"tries) "
		"VALUES ($1, $2, $3, $4, $5, pg_catalog.clock_timestamp(), 1) "
		"ON CONFLICT (name, period, period_start) DO UPDATE SET token = EXCLUDED.token, "
		"owner = EXCLUDED.owner, started_at = EXCLUDED.started_at, "
		"tries = r.tries OPERATOR(pg_catalog.+) 1 RETURNING r.tries";
	const SpiArgument arguments[] = {
		{TEXTOID, CStringGetTextDatum(held.key.name), false},
		{INTERVALOID, period != nullptr ? *period : Datum{0}, period == nullptr},
		{TIMESTAMPTZOID, TimestampTzGetDatum(held.key.bucket), period == nullptr},
		{INT8OID, Int64GetDatum(held.token), false},
		{TEXTOID, CStringGetTextDatum(owner), false}};
	as_owner([&] {
		spi_execute(kStart, arguments);
		bool first = DatumGetInt32(spi_value(0, 1, INT4OID)) == 1;
		CommandCounterIncrement();
		if (first && period != nullptr)
			forget_old_runs(held.key);
	});
	CommandCounterIncrement();
}

/* ---- verbs ---- */

/*
 * Take the lock first and read the row after that, so that the read sees all changes that were
 * committed before the lock was taken.
 */
int64
begin_run(const LockWish &wish, const Datum *period)
{
	int64 end = end_of_lock_wait(wish);
	HeldLock held;
	do
	{
		if (!take_lock_in_memory(wish, end, &held))
			return 0;
		if (is_finished(held.key))
		{
			undo_newest_lock_effect();
			return 0;
		}
	} while (!make_lock_durable(held));
	note_start(held, wish.owner, period);
	return held.token;
}

bool
finish_run(const char *name, int64 token, const Datum *result)
{
	static constexpr RunStatement statement = {
		"UPDATE pgq_ext.run SET finished_at = pg_catalog.clock_timestamp(), result = $5 " THE_RUN(
			"AND token OPERATOR(pg_catalog.=) $4"),
		"UPDATE pgq_ext.run SET finished_at = pg_catalog.clock_timestamp(), "
		"result = $5 " THE_RUN_FOR_EVER("AND token OPERATOR(pg_catalog.=) $4")};
	HeldLock held;
	if (!give_back_lock(name, token, &held) || !held.key.is_run())
		return false;
	const SpiArgument more[] = {
		{INT8OID, Int64GetDatum(token), false},
		{JSONBOID, result != nullptr ? *result : Datum{0}, result == nullptr}};
	bool finished = false;
	as_owner([&] { finished = execute(statement, held.key, more, lengthof(more)) > 0; });
	CommandCounterIncrement();
	return finished;
}

} // namespace pgq
