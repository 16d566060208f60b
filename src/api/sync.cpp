/*
 * SQL functions of named locks, runs and rates: pgq_lock, pgq_extend_lock, pgq_unlock,
 * pgq_run_once, pgq_run_done, pgq_create_rate, pgq_drop_rate and pgq_take. Also the functions
 * behind the views lock and rate.
 */
#include "api/args.h"
#include "api/result_rows.h"
#include "api/trigger_data.h"
#include "catalog/reader.h"
#include "engine/named/lock_ends.h"
#include "pg/clock.h"
#include "sync/lock.h"
#include "sync/lock_load.h"
#include "sync/rate.h"
#include "sync/run.h"

namespace pgq {

static constexpr int kPermitsMax = 100000;
static constexpr int64 kRatePeriodMax = 366 * USECS_PER_DAY;

[[noreturn]] static void
complain_stale_lock(const char *name, int64 token)
{
	static constexpr int kStaleLease = MAKE_SQLSTATE('P', 'Q', '0', '0', '1');
	ereport(ERROR,
			(errcode(kStaleLease),
			 errmsg("lock \"%s\" is not held with token %lld", name, static_cast<long long>(token)),
			 errdetail("The lock was given back, its time is over, or the transaction or session "
					   "that it was bound to has ended.")));
}

static char *
name_argument(FunctionCallInfo fcinfo, const char *of)
{
	return checked_name(required(fcinfo, 0, "name"), of);
}

static int64
wait_argument(FunctionCallInfo fcinfo, int i)
{
	return given(fcinfo, i) ? duration(PG_GETARG_DATUM(i), "wait", kWaitMax) : 0;
}

static const char *
owner_argument(FunctionCallInfo fcinfo, int i)
{
	return given(fcinfo, i) ? clipped(PG_GETARG_DATUM(i), kLockOwnerMax) : application_name;
}

static int64
ttl_argument(FunctionCallInfo fcinfo, int i, int64 otherwise)
{
	return given(fcinfo, i) ? one_second_or_more(PG_GETARG_DATUM(i), "ttl") : otherwise;
}

static LockWish
read_lock_wish(FunctionCallInfo fcinfo)
{
	enum
	{
		kTtl = 1,
		kSlots,
		kWait,
		kOwner,
		kSessionBound,
	};
	LockWish wish{};
	wish.name = name_argument(fcinfo, "lock");
	wish.ttl = ttl_argument(fcinfo, kTtl, 30 * USECS_PER_SEC);
	wish.slots =
		given(fcinfo, kSlots) ? in_range(PG_GETARG_INT32(kSlots), 1, kSlotsMax, "slots") : 1;
	wish.wait = wait_argument(fcinfo, kWait);
	wish.owner = owner_argument(fcinfo, kOwner);
	wish.session_bound = given(fcinfo, kSessionBound) && PG_GETARG_BOOL(kSessionBound);
	wish.period = kNoPeriod;
	return wish;
}

static constexpr int kRunPeriod = 1;

static LockWish
read_run_wish(FunctionCallInfo fcinfo)
{
	enum
	{
		kTtl = kRunPeriod + 1,
		kWait,
		kOwner,
	};
	LockWish wish{};
	wish.name = name_argument(fcinfo, "run");
	if (given(fcinfo, kRunPeriod))
	{
		wish.period = exact_period(PG_GETARG_DATUM(kRunPeriod), "period");
		wish.bucket = bucket_of(wall_now(), wish.period);
	}
	wish.ttl = ttl_argument(fcinfo, kTtl, 5 * USECS_PER_MINUTE);
	wish.slots = 1;
	wish.wait = wait_argument(fcinfo, kWait);
	wish.owner = owner_argument(fcinfo, kOwner);
	return wish;
}

/* ---- views ---- */

namespace {

enum class LockColumnOf
{
	kName,
	kSlot,
	kSlots,
	kToken,
	kOwner,
	kPid,
	kAcquiredAt,
	kExpiresAt,
	kSessionBound,
	kWaiting,
	kInTransaction,
	kColumns
};

} // namespace

static void
put_lock(ResultRows *rows, const LockCopy &copy, bool with_token)
{
	using enum LockColumnOf;
	const Grant &grant = copy.grant;
	ResultRow<LockColumnOf> row;
	row.set(kName, copy.key.name);
	row.set(kSlot, copy.slot);
	row.set(kSlots, grant.slots);
	row.set_if(with_token, kToken, grant.token);
	row.set(kOwner, grant.owner);
	row.set_if(grant.pid != 0, kPid, grant.pid);
	row.set(kAcquiredAt, grant.acquired_at);
	row.set(kExpiresAt, wall_now() + (grant.deadline - monotonic_now()));
	row.set(kSessionBound, grant.session_bound);
	row.set(kWaiting, copy.waiting);
	row.set(kInTransaction, copy.open);
	rows->put(row);
}

static void
put_locks(ResultRows *rows)
{
	bool with_token = may_read("lock", "token");
	const Database *db = tables_with_known_locks().database;
	auto *copies = static_cast<LockCopy *>(
		MemoryContextAllocHuge(CurrentMemoryContext, mul_size(max_locks, sizeof(LockCopy))));
	int n = copy_locks(db, copies, max_locks);
	for (int i = 0; i < n; i++)
		put_lock(rows, copies[i], with_token);
	pfree(copies);
}

namespace {

enum class RateColumn
{
	kName,
	kAvailable,
	kNextAt,
	kColumns
};

} // namespace

static void
put_rates(ResultRows *rows)
{
	const RateKey here = rate_key_of("");
	auto *copies = static_cast<RateCopy *>(
		MemoryContextAllocHuge(CurrentMemoryContext, mul_size(max_rates, sizeof(RateCopy))));
	int n = copy_rates(here.database, here.incarnation, copies, max_rates);
	for (int i = 0; i < n; i++)
	{
		ResultRow<RateColumn> row;
		row.set(RateColumn::kName, static_cast<const char *>(copies[i].key.name));
		row.set(RateColumn::kAvailable, copies[i].available);
		row.set(RateColumn::kNextAt, wall_now() + (copies[i].next_at - monotonic_now()));
		rows->put(row);
	}
	pfree(copies);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_lock);
PG_FUNCTION_INFO_V1(pgq_extend_lock);
PG_FUNCTION_INFO_V1(pgq_unlock);
PG_FUNCTION_INFO_V1(pgq_assert_lock);
PG_FUNCTION_INFO_V1(pgq_run_once);
PG_FUNCTION_INFO_V1(pgq_run_done);
PG_FUNCTION_INFO_V1(pgq_create_rate);
PG_FUNCTION_INFO_V1(pgq_drop_rate);
PG_FUNCTION_INFO_V1(pgq_take);
PG_FUNCTION_INFO_V1(pgq_lock_entries);
PG_FUNCTION_INFO_V1(pgq_rate_entries);
PG_FUNCTION_INFO_V1(pgq_held_lock_changed);

PGDLLEXPORT Datum
pgq_lock(PG_FUNCTION_ARGS)
{
	start_write("pgq_lock()");
	int64 token = acquire_lock(read_lock_wish(fcinfo));
	if (token == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(token);
}

PGDLLEXPORT Datum
pgq_extend_lock(PG_FUNCTION_ARGS)
{
	start_write("pgq_extend_lock()");
	const char *name = name_argument(fcinfo, "lock");
	int64 token = DatumGetInt64(required(fcinfo, 1, "token"));
	TimestampTz end = extend_lock(name, token, ttl_argument(fcinfo, 2, 0));
	if (end == 0)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(end);
}

PGDLLEXPORT Datum
pgq_unlock(PG_FUNCTION_ARGS)
{
	start_write("pgq_unlock()");
	const char *name = name_argument(fcinfo, "lock");
	HeldLock held;
	PG_RETURN_BOOL(give_back_lock(name, DatumGetInt64(required(fcinfo, 1, "token")), &held));
}

PGDLLEXPORT Datum
pgq_assert_lock(PG_FUNCTION_ARGS)
{
	start_write("pgq_assert_lock()");
	const char *name = name_argument(fcinfo, "lock");
	int64 token = DatumGetInt64(required(fcinfo, 1, "token"));
	if (!assert_lock(name, token))
		complain_stale_lock(name, token);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_run_once(PG_FUNCTION_ARGS)
{
	start_write("pgq_run_once()");
	LockWish wish = read_run_wish(fcinfo);
	Datum period = given(fcinfo, kRunPeriod) ? PG_GETARG_DATUM(kRunPeriod) : Datum{0};
	int64 token = begin_run(wish, given(fcinfo, kRunPeriod) ? &period : nullptr);
	if (token == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(token);
}

PGDLLEXPORT Datum
pgq_run_done(PG_FUNCTION_ARGS)
{
	start_write("pgq_run_done()");
	const char *name = name_argument(fcinfo, "run");
	int64 token = DatumGetInt64(required(fcinfo, 1, "token"));
	Datum result = given(fcinfo, 2) ? PG_GETARG_DATUM(2) : Datum{0};
	if (!finish_run(name, token, given(fcinfo, 2) ? &result : nullptr))
		complain_stale_lock(name, token);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_create_rate(PG_FUNCTION_ARGS)
{
	start_write("pgq_create_rate()");
	const char *name = name_argument(fcinfo, "rate");
	int32 permits =
		in_range(DatumGetInt32(required(fcinfo, 1, "permits")), 1, kPermitsMax, "permits");
	Datum period = required(fcinfo, 2, "period");
	(void) duration(period, "period", kRatePeriodMax);
	(void) exact_period(period, "period");
	int32 burst = given(fcinfo, 3) ? in_range(PG_GETARG_INT32(3), 1, permits, "burst") : 1;
	bool created = create_rate(name, permits, period, burst);
	if (!created && !(given(fcinfo, 4) && PG_GETARG_BOOL(4)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT), errmsg("rate \"%s\" already exists", name),
				 errhint("Pass if_not_exists => true to accept an existing rate.")));
	PG_RETURN_BOOL(created);
}

PGDLLEXPORT Datum
pgq_drop_rate(PG_FUNCTION_ARGS)
{
	start_write("pgq_drop_rate()");
	const char *name = name_argument(fcinfo, "rate");
	bool dropped = drop_rate(name);
	if (!dropped && !(given(fcinfo, 1) && PG_GETARG_BOOL(1)))
		complain_of_rate(name);
	PG_RETURN_BOOL(dropped);
}

PGDLLEXPORT Datum
pgq_take(PG_FUNCTION_ARGS)
{
	start_verb("pgq_take()");
	const char *name = name_argument(fcinfo, "rate");
	int32 permits = given(fcinfo, 1) ? in_range(PG_GETARG_INT32(1), 1, kPermitsMax, "permits") : 1;
	PG_RETURN_BOOL(take_rate(name, permits, wait_argument(fcinfo, 2)));
}

/* Internal function: returns the rows of the view lock. */
PGDLLEXPORT Datum
pgq_lock_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.lock_entries()");
	require_reader(fcinfo, {"lock"});
	ResultRows rows(fcinfo);
	put_locks(&rows);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_rate_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.rate_entries()");
	require_reader(fcinfo, {"rate"});
	ResultRows rows(fcinfo);
	put_rates(&rows);
	return (Datum) 0;
}

/*
 * Trigger for rows of pgq_ext.held_lock that SQL statements write directly, usually in a restore:
 * notes that shared memory may lack rows, so that the next session that uses named locks loads the
 * rows. Does nothing without shared memory.
 */
PGDLLEXPORT Datum
pgq_held_lock_changed(PG_FUNCTION_ARGS)
{
	(void) trigger_data(fcinfo, "held_lock_changed");
	if (const Tables *t = tables_if_attached())
		doubt_locks(t->database);
	return Datum{0};
}
}
