#include "jobs/result.h"

#include "catalog/owner_sql.h"
#include "catalog/tables.h"
#include "engine/hold.h"
#include "engine/result_wait.h"
#include "load/attach.h"
#include "pg/client.h"
#include "pg/virtual_xid.h"
#include "pg/wait_events.h"
#include "rows/look_up.h"
#include "rows/write.h"
#include "steps/permission.h"
#include "txn/effects.h"

namespace pgq {

/* ---- looking for the job and its record ---- */

namespace {

/* The result of one search for the job, and for the record of its end. */
enum class Look : uint8
{
	kNone,
	kComing, /* no visible row or record, but an open transaction has inserted a row */
	kEnding, /* no row or record, but the transaction that ended the job has yet to tell waiting sessions */
	kOver, /* there is a record: the job has ended */
	kLive,
	kOurs, /* live, and only this transaction can end the job */
};

} // namespace

static const char *
state_of(const JobRow &row)
{
	bool leased = false;
	(void) look_at_lease(tables().database, row.job_id(), [&](const Lease &lease) {
		leased = lease.state == LeaseState::kClaimed && !lease.doomed;
	});
	if (leased)
		return "leased";
	if (row.blocked())
		return "blocked";
	return row.delayed() && DatumGetTimestampTz(row.value(kJobRunAt)) > wall_now() ? "scheduled"
																				   : "ready";
}

/* Copy the error, since the memory of the row is freed after the search. */
static void
set_error(JobResult *result, bool has_error, Datum error)
{
	result->has_error = has_error;
	if (has_error)
		result->error = PointerGetDatum(PG_DETOAST_DATUM_COPY(error));
}

static Look
look_at_live(int64 job_id, JobResult *result)
{
	JobRow row;
	SegmentSet segments(AccessShareLock);
	Look look = Look::kNone;
	switch (locate_job(segments, Place{}, job_id, false, &row))
	{
		case WriteResult::kDone:
			if (!may(Permission::kAskResult, row.queue_id()))
				break;
			look = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(row.tuple->t_data))
					   ? Look::kOurs
					   : Look::kLive;
			result->state = state_of(row);
			set_error(result, !row.is_null(kJobLastError), row.value(kJobLastError));
			break;
		case WriteResult::kBusy:
			if (may_at_busy(segments, job_id, Permission::kAskResult))
				look = Look::kComing;
			break;
		case WriteResult::kGone:
			break;
	}
	segments.close();
	return look;
}

static constexpr char kOver[] =
	"SELECT d.died_at AS over_at, 'dead' AS state, NULL::pg_catalog.jsonb AS result, d.last_error "
	"AS error, d.queue_id "
	"FROM pgq_ext.dead_job d WHERE d.job_id OPERATOR(pg_catalog.=) $1 "
	"UNION ALL SELECT f.finished_at, f.outcome, f.result, NULL, f.queue_id "
	"FROM pgq_ext.finished_job f WHERE f.job_id OPERATOR(pg_catalog.=) $1 "
	"ORDER BY over_at DESC LIMIT 1";

/* Copy the row that the statement kOver has returned into `memory`. */
static void
read_record(MemoryContext memory, int32 *queue_id, JobResult *result)
{
	bool is_null;
	MemoryContext spi = MemoryContextSwitchTo(memory);
	*queue_id = DatumGetInt32(spi_value(0, 5, INT4OID));
	result->state = text_to_cstring(DatumGetTextPP(spi_value(0, 2, TEXTOID)));
	Datum value = spi_value(0, 3, JSONBOID, &is_null);
	result->has_result = !is_null;
	if (!is_null)
		result->result = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	value = spi_value(0, 4, TEXTOID, &is_null);
	set_error(result, !is_null, value);
	MemoryContextSwitchTo(spi);
}

static Look
look_at_records(int64 job_id, JobResult *result)
{
	const SpiArgument id[] = {{INT8OID, Int64GetDatum(job_id), false}};
	MemoryContext caller = CurrentMemoryContext;
	bool found = false;
	int32 queue_id = 0;
	as_owner([&] {
		found = spi_execute(kOver, id) > 0;
		if (found)
			read_record(caller, &queue_id, result);
	});
	if (found && may(Permission::kAskResult, queue_id))
		return Look::kOver;
	*result = {};
	return Look::kNone;
}

/*
 * Search for the job, then for the record of its end. A job that dies, is revived or is moved
 * between the two searches would be missed, so do both twice.
 */
static Look
look(int64 job_id, JobResult *result)
{
	Look live = Look::kNone;
	for (int looks = 0; looks < 2; looks++)
	{
		*result = {};
		live = look_at_live(job_id, result);
		if (live == Look::kLive || live == Look::kOurs)
			return live;
		/*
		 * Look for a record even if the row is being inserted: a dead letter that an open
		 * transaction revives is still dead.
		 */
		if (look_at_records(job_id, result) == Look::kOver)
			return Look::kOver;
	}
	return live;
}

/* ---- waiting ---- */

static const char *
state_after(JobEnd end)
{
	switch (end)
	{
		case JobEnd::kAcked:
			return "acked";
		case JobEnd::kCancelled:
			return "cancelled";
		case JobEnd::kExpired:
			return "expired";
		case JobEnd::kDead:
			return "dead";
		case JobEnd::kUnknown:
			break;
	}
	return nullptr;
}

/*
 * Return how long to sleep (milliseconds) before the next look(). Some changes do not wake a
 * waiting session, so the sleep is bounded. These changes are a row deleted or inserted by SQL, the
 * end of a prepared transaction, and the end of a lease that does not end its job.
 */
static long
nap_of_waiter(Look found, int64 end)
{
	static constexpr int64 kLookAgain = 1000;
	static constexpr int64 kLookSoon = 100;
	int64 left = Max(0, end - monotonic_now()) / 1000 + 1;
	return Min(left, found != Look::kLive || any_prepared() ? kLookSoon : kLookAgain);
}

/*
 * Return whether the xid is that of another transaction that has not ended. The lock of a
 * subtransaction's own xid is released early, at RELEASE SAVEPOINT, so look at the topmost
 * transaction. The parent of an xid before TransactionXmin is not known any more.
 */
static bool
is_ending(TransactionId xid)
{
	if (!TransactionIdPrecedes(xid, TransactionXmin))
		xid = SubTransGetTopmostTransaction(xid);
	/*
	 * A subtransaction of this transaction that was rolled back does not end the job, so ignore it.
	 */
	return !TransactionIdIsCurrentTransactionId(xid) && !has_ended(xid);
}

/*
 * Return whether a transaction that has deleted the row is still running its commit callback. That
 * transaction may have given its lease of the job back early (steps/README.md, "Fleeting leases"),
 * but it tells waiters before it releases the lock of its xid. The snapshot of the waiting
 * statement keeps the dead row version from being removed.
 */
static bool
is_deleter_ending(int64 job_id, int32 *queue_id)
{
	SegmentSet segments(AccessShareLock);
	List *deleters = deleters_of(segments, job_id, queue_id);
	segments.close();
	bool ending = false;
	ListCell *cell;
	foreach (cell, deleters)
		ending = ending || is_ending(lfirst_oid(cell));
	list_free(deleters);
	return ending;
}

/*
 * Return whether waiting sessions are still to be told the end of the job. The row is gone as soon
 * as the transaction commits; the end is told a little later, in the hold of the queue's lock that
 * ends the lease. If this returns false, the sessions were told already, or will not be told, as
 * for a row that SQL has deleted.
 */
static bool
is_being_ended(int64 job_id)
{
	int32 queue_id = 0;
	bool ending = is_deleter_ending(job_id, &queue_id);
	if (ending)
		return may(Permission::kAskResult, queue_id);
	if (any_prepared())
		resolve_prepared();
	(void) look_at_lease(tables().database, job_id, [&](const Lease &lease) {
		bool ours = is_me(lease.user);
		ending = (lease.ending && !ours) || lease.prepared.ended;
		queue_id = lease.queue->queue_id;
	});
	return ending && may(Permission::kAskResult, queue_id);
}

static Look
look_until_over(int64 job_id, int64 end, JobResult *result)
{
	for (;;)
	{
		ResetLatch(MyLatch);
		if (any_prepared())
			resolve_prepared();
		Look found = look(job_id, result);
		if (found == Look::kNone && is_being_ended(job_id))
			found = Look::kEnding;
		bool over = found == Look::kNone || found == Look::kOver || found == Look::kOurs;
		if (over || monotonic_now() >= end)
			return found;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 nap_of_waiter(found, end), wait_events.result);
		CHECK_FOR_INTERRUPTS();
		check_client();
	}
}

bool
result_of(int64 job_id, int64 wait, JobResult *result)
{
	if (wait == 0)
	{
		(void) look(job_id, result);
		return result->state != nullptr;
	}
	/* Register the wait before the first look, so that no later end is missed. */
	begin_result_wait(tables().database, job_id);
	(void) look_until_over(job_id, end_of_wait(wait), result);
	int32 queue_id;
	const char *told = state_after(end_result_wait(&queue_id));
	/* If the queue keeps no record of the job, only its final state is known. */
	if (result->state == nullptr && told != nullptr && may(Permission::kAskResult, queue_id))
		result->state = told;
	return result->state != nullptr;
}

} // namespace pgq
