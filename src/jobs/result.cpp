#include "jobs/result.h"

#include "catalog/owner_sql.h"
#include "catalog/tables.h"
#include "engine/hold.h"
#include "engine/result_wait.h"
#include "jobs/permitted.h"
#include "load/attach.h"
#include "pg/client.h"
#include "pg/virtual_xid.h"
#include "pg/wait_events.h"
#include "rows/look_up.h"
#include "rows/write.h"
#include "txn/effects.h"

namespace pgq {

/* ---- a look ---- */

namespace {

enum class Look : uint8
{
	kNone,
	kComing, /* as kNone, but an open transaction has inserted its row */
	kEnding, /* as kNone, but the transaction that ended it has not told yet */
	kOver,
	kLive,
	kOurs, /* live, and only this transaction can end it */
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
	return row.delayed() && DatumGetTimestampTz(row.value(kJobRunAt)) > wall_now() ? "scheduled"
																				   : "ready";
}

/* Copy the error: the row's memory is freed after the look. */
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
			if (!may(Deed::kAskResult, row.queue_id()))
				break;
			look = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(row.tuple->t_data))
					   ? Look::kOurs
					   : Look::kLive;
			result->state = state_of(row);
			set_error(result, !row.is_null(kJobLastError), row.value(kJobLastError));
			break;
		case WriteResult::kBusy:
			if (may_at_busy(segments, job_id, Deed::kAskResult))
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

/* Copy the row that kOver has found to that memory. */
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
	if (found && may(Deed::kAskResult, queue_id))
		return Look::kOver;
	*result = {};
	return Look::kNone;
}

/*
 * Look for the job, then for its record. A job that dies, is revived or is moved between the two
 * looks would be missed, so look twice.
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
 * Return how long to sleep before the next look. Some changes wake no session: a row deleted or
 * inserted by SQL, a prepared transaction that has ended, and a lease that ends without ending its
 * job.
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
 * Return whether the transaction that xid belongs to has not ended. A subtransaction's own xid lock
 * is released at its RELEASE, so the topmost transaction is asked; an xid before TransactionXmin
 * has no known parent any more.
 */
static bool
is_ending(TransactionId xid)
{
	if (!TransactionIdPrecedes(xid, TransactionXmin))
		xid = SubTransGetTopmostTransaction(xid);
	/* No other transaction ends a rolled-back subtransaction of this one. */
	return !TransactionIdIsCurrentTransactionId(xid) && !has_ended(xid);
}

/*
 * Return whether a transaction that has deleted the row is still running its commit callback. The
 * lease may have gone early (README.md, "Fleeting leases"), but that transaction tells waiting
 * sessions before it releases the lock of its xid. The snapshot of the waiting statement keeps the
 * dead version from being removed.
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
 * Return whether the end of the job is still to be told. A row is gone from the moment of the
 * commit; its end is told a little later, in the hold that ends the lease. So if this returns false
 * the end has been told, or there is none to tell, as for a row that SQL has deleted.
 */
static bool
is_being_ended(int64 job_id)
{
	int32 queue_id = 0;
	bool ending = is_deleter_ending(job_id, &queue_id);
	if (ending)
		return may(Deed::kAskResult, queue_id);
	if (any_prepared())
		resolve_prepared();
	(void) look_at_lease(tables().database, job_id, [&](const Lease &lease) {
		bool ours = is_me(lease.user);
		ending = (lease.ending && !ours) || lease.prepared.ended;
		queue_id = lease.queue->queue_id;
	});
	return ending && may(Deed::kAskResult, queue_id);
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
	/* Register before the first look, so that no later end is missed. */
	begin_result_wait(tables().database, job_id);
	(void) look_until_over(job_id, end_of_wait(wait), result);
	int32 queue_id;
	const char *told = state_after(end_result_wait(&queue_id));
	/* No record is kept, so only the state is known. */
	if (result->state == nullptr && told != nullptr && may(Deed::kAskResult, queue_id))
		result->state = told;
	return result->state != nullptr;
}

} // namespace pgq
