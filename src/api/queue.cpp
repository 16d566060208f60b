/*
 * pgq_create_queue, pgq_drop_queue, pgq_purge_queue: rare, so plain SQL through SPI.
 */
#include "api/args.h"
#include "api/by_hand.h"
#include "engine/lease.h"
#include "pg/scope.h"
#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "ring/segment.h"
#include "catalog/owner_sql.h"
#include "catalog/create_segments.h"
#include "catalog/tables.h"
#include "txn/effects.h"

namespace pgq {

/* One at a time: creators and droppers of queues, to the end of their transactions. */
static void
lock_queues()
{
	LockRelationOid(tables().queue, ShareRowExclusiveLock);
}

/* ---- create ---- */

/* An argument that is checked and passed on as it is, or its default if NULL. */
template <typename Check>
static SpiArgument
interval_or(FunctionCallInfo fcinfo, int i, const char *name, const char *initial, Check check)
{
	Datum value = given(fcinfo, i)
					  ? PG_GETARG_DATUM(i)
					  : DirectFunctionCall3(interval_in, CStringGetDatum(initial),
											ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	(void) check(value, name);
	return {INTERVALOID, value, false};
}

/* Options whose feature comes later accept nothing but their default. */
static void
only_default(FunctionCallInfo fcinfo, int i, const char *name, const char *initial)
{
	if (!given(fcinfo, i))
		return;
	Datum value = DirectFunctionCall3(interval_in, CStringGetDatum(initial),
									  ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	not_yet(!DatumGetBool(DirectFunctionCall2(interval_eq, PG_GETARG_DATUM(i), value)), name);
}

static bool
create_queue(FunctionCallInfo fcinfo)
{
	enum
	{
		kName,
		kLeaseTime,
		kMaxRuntime,
		kMaxAttempts,
		kBackoffBase,
		kBackoffMax,
		kBackoffJitter,
		kConcurrency,
		kGroupConcurrency,
		kLogAttempts,
		kKeepAttempts,
		kKeepFinished,
		kKeepDead,
		kNotify,
		kIfNotExists,
	};
	char *name = queue_name(required(fcinfo, kName, "queue"));
	not_yet(given(fcinfo, kConcurrency) && PG_GETARG_INT32(kConcurrency) != 0, "concurrency");
	not_yet(given(fcinfo, kGroupConcurrency) && PG_GETARG_INT32(kGroupConcurrency) != 0,
			"group_concurrency");
	not_yet(given(fcinfo, kLogAttempts) &&
				strcmp(text_to_cstring(PG_GETARG_TEXT_PP(kLogAttempts)), "failed") != 0,
			"log_attempts");
	only_default(fcinfo, kKeepAttempts, "keep_attempts", "7 days");
	only_default(fcinfo, kKeepFinished, "keep_finished", "0");

	int32 max_attempts = given(fcinfo, kMaxAttempts)
							 ? in_range(PG_GETARG_INT32(kMaxAttempts), 1, INT32_MAX, "max_attempts")
							 : 20;
	float8 backoff_jitter = given(fcinfo, kBackoffJitter)
								? jitter(PG_GETARG_FLOAT8(kBackoffJitter), "backoff_jitter")
								: 0.2;
	auto is_duration = [](Datum value, const char *option) { return duration(value, option); };
	bool notify = !given(fcinfo, kNotify) || PG_GETARG_BOOL(kNotify);
	const SpiArgument row[] = {
		{TEXTOID, CStringGetTextDatum(name), false},
		interval_or(fcinfo, kLeaseTime, "lease_time", "5 min", lease_time),
		interval_or(fcinfo, kMaxRuntime, "max_runtime", "0", max_runtime),
		{INT4OID, Int32GetDatum(max_attempts), false},
		interval_or(fcinfo, kBackoffBase, "backoff_base", "1 s", is_duration),
		interval_or(fcinfo, kBackoffMax, "backoff_max", "1 h", is_duration),
		{FLOAT8OID, Float8GetDatum(backoff_jitter), false},
		interval_or(fcinfo, kKeepDead, "keep_dead", "30 days", is_duration),
		{BOOLOID, BoolGetDatum(notify), false},
	};

	lock_queues();
	refuse_if_queues_subscribed();
	QueueRef ref;
	if (find_queue(name, &ref))
	{
		if (given(fcinfo, kIfNotExists) && PG_GETARG_BOOL(kIfNotExists))
			return false;
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT), errmsg("queue \"%s\" already exists", name),
				 errhint("Pass if_not_exists => true if that is no error.")));
	}
	as_owner([&] {
		create_segments();
		spi_execute("INSERT INTO pgq_ext.queue (queue, lease_time, max_runtime, max_attempts, "
					"backoff_base, backoff_max, "
					"backoff_jitter, keep_dead, notify) "
					"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
					row);
	});
	CommandCounterIncrement();
	ref = resolve_queue(name);
	add_created_effect(ref);
	return true;
}

/* ---- drop ---- */

static void
refuse_if_not_empty(const QueueRef &ref, const char *name, const char *hint)
{
	const SpiArgument id[] = {{INT4OID, Int32GetDatum(ref.queue_id), false}};
	bool jobs = false;
	bool dead = false;
	as_owner([&] {
		jobs = spi_execute(
				   "SELECT 1 FROM pgq_ext.job WHERE queue_id OPERATOR(pg_catalog.=) $1 LIMIT 1",
				   id) > 0;
		dead =
			spi_execute(
				"SELECT 1 FROM pgq_ext.dead_job WHERE queue_id OPERATOR(pg_catalog.=) $1 LIMIT 1",
				id) > 0;
	});
	if (jobs || dead)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE), errmsg("queue \"%s\" is not empty", name),
						jobs ? errdetail("It has jobs.") : errdetail("It has dead letters."),
						errhint("%s", hint)));
}

/* Transactions that have acknowledged or failed a job of the queue and have not ended. */
static void
wait_for_enders(const QueueRef &ref)
{
	int most = MaxBackends + max_prepared_xacts;
	auto *enders = static_cast<VirtualTransactionId *>(palloc(most * sizeof(VirtualTransactionId)));
	int n = enders_of(ref, enders, most);
	for (int i = 0; i < n; i++)
		VirtualXactLock(enders[i], true);
	pfree(enders);
}

/* A restore that has locked a segment for itself alone does not lock queues: see trigger.cpp. */
static void
wait_for_lone_writers()
{
	const JobSegments list = job_segments();
	LOCKTAG tags[kMaxSegments];
	List *awaited = NIL;
	for (int i = 0; i < list.n; i++)
	{
		SET_LOCKTAG_RELATION(tags[i], MyDatabaseId, list.segment[i].heap);
		awaited = lappend(awaited, &tags[i]);
	}
	WaitForLockersMultiple(awaited, AccessShareLock, false);
}

/*
 * Transactions that have written jobs of this queue hold its lock; those that come now wait
 * for us. So after this nobody but us has uncommitted jobs in the queue, and those who
 * write to other queues were not waited for.
 */
void
close_queue(const QueueRef &ref)
{
	drop_queue_at_commit(ref);
	(void) lock_queue(ref.queue_id, QueueLock::kWriters, ExclusiveLock, true);
	wait_for_enders(ref);
	wait_for_mover(ref, with_lwlock(ref.queue->lock, LW_SHARED, [&] { return ref.queue->mover; }));
	wait_for_lone_writers();
}

void
close_empty_queue(const QueueRef &ref, const char *name, const char *hint)
{
	refuse_if_not_empty(ref, name, hint);
	close_queue(ref);
	refuse_if_not_empty(ref, name, hint);
}

static bool
drop_queue(char *name, bool if_exists, bool force)
{
	lock_queues();
	QueueRef ref;
	if (!find_queue(name, &ref))
	{
		if (if_exists)
			return false;
		ref = resolve_queue_to_empty(name, "Pass if_exists => true if that is no error.");
	}
	refuse_if_subscribed();
	if (force)
		close_queue(ref);
	else
		close_empty_queue(ref, name, "Pass force => true to delete them with the queue.");
	const SpiArgument id[] = {{INT4OID, Int32GetDatum(ref.queue_id), false}};
	as_owner([&] {
		spi_execute("DELETE FROM pgq_ext.job WHERE queue_id OPERATOR(pg_catalog.=) $1", id);
		spi_execute("DELETE FROM pgq_ext.dead_job WHERE queue_id OPERATOR(pg_catalog.=) $1", id);
		spi_execute("DELETE FROM pgq_ext.queue WHERE queue_id OPERATOR(pg_catalog.=) $1", id);
	});
	return true;
}

/* ---- purge ---- */

/*
 * Not one that is set aside, or whose lease was lost: it waits, for who is at its row or for
 * the scheduler. Its lease ends when somebody finds the row gone.
 */
static bool
is_in_hand(int64 job_id)
{
	Lease *lease;
	Queue *queue;
	if (!find_lease(tables().database, job_id, &lease, &queue))
		return false;
	return with_lwlock(queue->lock, LW_SHARED, [&] {
		return lease->queue == queue && lease->key.job_id == job_id && serial_of(lease) != 0 &&
			   (lease->state == LeaseState::kClaiming || lease->state == LeaseState::kClaimed);
	});
}

/* The owner can put another one in its place, but none in C if he is no superuser. */
static void
require_is_leased()
{
	const Oid argument = INT8OID;
	List *name = list_make2(makeString(pstrdup("pgq_ext")), makeString(pstrdup("is_leased")));
	Oid function = LookupFuncName(name, 1, &argument, true);
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool ours = HeapTupleIsValid(tuple) &&
				reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple))->prolang == ClanguageId;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	if (!ours)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("function pgq_ext.is_leased(bigint) is not the extension's"),
						errhint("Create the extension again.")));
}

/* Jobs that wait are deleted; those that run are their workers'. */
static uint64
purge_queue(const QueueRef &ref)
{
	uint64 purged = 0;
	const SpiArgument id[] = {{INT4OID, Int32GetDatum(ref.queue_id), false}};
	refuse_if_subscribed();
	hold_queue(ref);
	/* Rows that are just being moved are found by no snapshot that is taken meanwhile. */
	wait_for_mover(ref, with_lwlock(ref.queue->lock, LW_SHARED, [&] { return ref.queue->mover; }));
	as_owner([&] {
		require_is_leased();
		purged = spi_execute("DELETE FROM pgq_ext.job WHERE queue_id OPERATOR(pg_catalog.=) $1 "
							 "AND NOT pgq_ext.is_leased(job_id)",
							 id);
	});
	return purged;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_create_queue);
PG_FUNCTION_INFO_V1(pgq_drop_queue);
PG_FUNCTION_INFO_V1(pgq_purge_queue);
PG_FUNCTION_INFO_V1(pgq_is_leased);

PGDLLEXPORT Datum
pgq_create_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_create_queue()");
	PG_RETURN_BOOL(create_queue(fcinfo));
}

PGDLLEXPORT Datum
pgq_drop_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_drop_queue()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	bool if_exists = given(fcinfo, 1) && PG_GETARG_BOOL(1);
	bool force = given(fcinfo, 2) && PG_GETARG_BOOL(2);
	PG_RETURN_BOOL(drop_queue(name, if_exists, force));
}

PGDLLEXPORT Datum
pgq_purge_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_purge_queue()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	PG_RETURN_INT64(purge_queue(resolve_queue_to_empty(name, nullptr)));
}

/* Internal: has anybody that job in hand? */
PGDLLEXPORT Datum
pgq_is_leased(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.is_leased()");
	PG_RETURN_BOOL(is_in_hand(DatumGetInt64(required(fcinfo, 0, "job_id"))));
}
}
