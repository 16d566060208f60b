#include "jobs/result.h"

#include "catalog/owner_sql.h"
#include "catalog/tables.h"
#include "engine/hold.h"
#include "engine/result_wait.h"
#include "jobs/permitted.h"
#include "load/attach.h"
#include "pg/client.h"
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
	kComing, /* as kNone, but somebody has inserted its row and not committed yet */
	kEnding, /* as kNone, but whoever has ended it has not told so yet */
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

/* Copied: the row's memory goes with the look. */
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

/* What kOver has found, copied to that memory. */
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

/* It may die, come back, or be moved, between one look and the other. */
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
		/* What is not committed has not happened: a dead letter that somebody is just bringing back is one yet. */
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
 * Some ends tell nobody: rows that are deleted by SQL, prepared transactions that nobody has resolved. Nor does who
 * inserts a row, or ends a lease in vain.
 */
static long
nap_in_milliseconds(Look found, int64 end)
{
	static constexpr int64 kLookAgain = 1000;
	static constexpr int64 kLookSoon = 100;
	int64 left = Max(0, end - monotonic_now()) / 1000 + 1;
	return Min(left, found != Look::kLive || any_prepared() ? kLookSoon : kLookAgain);
}

/*
 * Does the transaction go on? It ends all of its subtransactions, and a subtransaction has given back the lock of its own
 * xid when it was released. What precedes TransactionXmin has no known parent any more.
 */
static bool
is_ending(TransactionId xid)
{
	if (!TransactionIdPrecedes(xid, TransactionXmin))
		xid = SubTransGetTopmostTransaction(xid);
	/* A subtransaction of this one that was rolled back: nobody else ends it. */
	return !TransactionIdIsCurrentTransactionId(xid) && !has_ended(xid);
}

/*
 * The lease may have gone early (README.md, "Fleeting leases"): the transaction that has deleted the row then tells so
 * while it still has the lock of its xid. The statement that waits keeps the version from being removed.
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
 * A row is gone from the moment of the commit; that it was acked is told a little later, in the hold that
 * ends the lease. So once this says no, it has been told. Where the row was deleted by SQL nobody ends the lease.
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
		bool ours = VirtualTransactionIdEquals(lease.user, my_virtual_xid());
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
						 nap_in_milliseconds(found, end), wait_events.result);
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
	/* Before the first look, so that nothing that happens after it is missed. */
	begin_result_wait(tables().database, job_id);
	(void) look_until_over(job_id, end_of_wait(wait), result);
	int32 queue_id;
	const char *told = state_after(end_result_wait(&queue_id));
	/* Nothing is kept of it: only the state. */
	if (result->state == nullptr && told != nullptr && may(Deed::kAskResult, queue_id))
		result->state = told;
	return result->state != nullptr;
}

} // namespace pgq
