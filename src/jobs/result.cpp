#include "jobs/result.h"

#include "catalog/owner_sql.h"
#include "catalog/tables.h"
#include "engine/hold.h"
#include "engine/result_wait.h"
#include "jobs/claim.h"
#include "load/attach.h"
#include "pg/wait_events.h"
#include "rows/write.h"
#include "txn/effects.h"

namespace pgq {

/* ---- a look ---- */

enum class Look : uint8
{
	kNone,
	kOver,
	kLive,
	kOurs, /* live, and only this transaction can end it */
};

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
	if (locate_job(segments, Place{}, job_id, true, &row) == WriteResult::kDone)
	{
		bool ours =
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(row.tuple->t_data));
		look = ours ? Look::kOurs : Look::kLive;
		result->state = state_of(row);
		set_error(result, !row.is_null(kJobLastError), row.value(kJobLastError));
	}
	segments.close();
	return look;
}

static constexpr char kOver[] =
	"SELECT d.died_at AS over_at, 'dead' AS state, NULL::pg_catalog.jsonb AS result, d.last_error "
	"AS error "
	"FROM pgq_ext.dead_job d WHERE d.job_id OPERATOR(pg_catalog.=) $1 "
	"UNION ALL SELECT f.finished_at, f.outcome, f.result, NULL "
	"FROM pgq_ext.finished_job f WHERE f.job_id OPERATOR(pg_catalog.=) $1 "
	"ORDER BY over_at DESC LIMIT 1";

static Look
look_at_records(int64 job_id, JobResult *result)
{
	const SpiArgument id[] = {{INT8OID, Int64GetDatum(job_id), false}};
	MemoryContext caller = CurrentMemoryContext;
	Look look = Look::kNone;
	as_owner([&] {
		if (spi_execute(kOver, id) == 0)
			return;
		bool is_null;
		look = Look::kOver;
		MemoryContext spi = MemoryContextSwitchTo(caller);
		result->state = text_to_cstring(DatumGetTextPP(spi_value(0, 2, &is_null)));
		Datum value = spi_value(0, 3, &is_null);
		result->has_result = !is_null;
		if (!is_null)
			result->result = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
		value = spi_value(0, 4, &is_null);
		set_error(result, !is_null, value);
		MemoryContextSwitchTo(spi);
	});
	return look;
}

/* It may die, or come back, between one look and the other. */
static Look
look(int64 job_id, JobResult *result)
{
	for (int looks = 0; looks < 2; looks++)
	{
		*result = {};
		Look found = look_at_live(job_id, result);
		if (found == Look::kNone)
			found = look_at_records(job_id, result);
		if (found != Look::kNone)
			return found;
	}
	return Look::kNone;
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

/* Some ends tell nobody: rows that are deleted by SQL, prepared transactions that nobody has resolved. */
static long
nap_in_milliseconds(int64 end)
{
	static constexpr int64 kLookAgain = 1000;
	static constexpr int64 kLookAtPrepared = 100;
	int64 left = Max(0, end - monotonic_now()) / 1000 + 1;
	return Min(left, any_prepared() ? kLookAtPrepared : kLookAgain);
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
		if (found != Look::kLive || monotonic_now() >= end)
			return found;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 nap_in_milliseconds(end), wait_events.result);
		CHECK_FOR_INTERRUPTS();
		check_client();
	}
}

bool
result_of(int64 job_id, int64 wait, JobResult *result)
{
	if (wait == 0)
		return look(job_id, result) != Look::kNone;
	/* Before the first look, so that nothing that happens after it is missed. */
	begin_result_wait(tables().database, job_id);
	Look found = look_until_over(job_id, end_of_wait(wait), result);
	const char *told = state_after(end_result_wait());
	/* Nothing is kept of it: only the state. */
	if (found == Look::kNone)
		result->state = told;
	return result->state != nullptr;
}

} // namespace pgq
