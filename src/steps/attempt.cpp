#include "steps/attempt.h"

#include "catalog/values.h"
#include "core/backoff.h"
#include "load/attach.h"
#include "rows/write.h"
#include "steps/depth.h"
#include "txn/effects.h"

namespace pgq {

/* ---- the record ---- */

void
note_run(const Lease *lease, Run *run)
{
	run->token = token_of(lease);
	run->claimed_at = lease->claimed_at;
	run->attempt = lease->attempt;
	memcpy(run->worker, lease->worker, sizeof(run->worker));
}

void
record_attempt(Records &records, const EndingLease &ending, Outcome outcome, const Failure *failure,
			   const char *death)
{
	if (!is_recorded(ending.options, outcome))
		return;
	bool lost = failure != nullptr && failure->loss != nullptr;
	add_attempt(records, {.job_id = ending.job_id,
						  .token = ending.run.token,
						  .queue_id = ending.ref.queue_id,
						  .attempt = ending.run.attempt,
						  .claimed_at = ending.run.claimed_at,
						  .worker = ending.run.worker,
						  .outcome = outcome,
						  .reason = lost ? failure->loss : death,
						  .has_error = failure != nullptr && !lost && failure->has_error,
						  .error = failure != nullptr ? failure->error : Datum{0}});
}

/* ---- the row ---- */

bool
end_attempt_and_row(SegmentSet &segments, Records &records, const EndingLease &ending, RowEnd why,
					Outcome outcome, const Datum *result, JobRow *deleted)
{
	const Finish finish = {&records, ending.run.worker, result};
	if (end_row(segments, ending.ref, ending.place, ending.job_id, why, nullptr, true,
				keeps_finished(ending.options) ? &finish : nullptr, result,
				deleted) != WriteResult::kDone)
	{
		set_end(ending.lease, LeaseEnd::kUncounted);
		return false;
	}
	record_attempt(records, ending, outcome);
	return true;
}

static const char *
reason_of(Loss loss)
{
	switch (loss)
	{
		case Loss::kExpired:
			return "the lease expired";
		case Loss::kUnreturnable:
			return "the row could not be returned by a claim";
		case Loss::kSessionEnded:
			return "the session of its worker ended";
		case Loss::kUndoneCancel:
			return "the job was cancelled, and that was rolled back after its worker had been told";
		case Loss::kUndone:
			break;
	}
	return "the claiming transaction was rolled back or its session ended";
}

Failure
failure_by(Loss loss, int64 token)
{
	Failure failure{};
	failure.fence = -token;
	failure.retry = true;
	failure.has_error = true;
	failure.loss = reason_of(loss);
	failure.error = CStringGetTextDatum(failure.loss);
	return failure;
}

TimestampTz
retry_time(const Failure &failure)
{
	return moment_after(wall_now(), failure.retry_in, "retry_in");
}

/* Return why the job dies after a failed attempt. */
static const char *
reason_of_death(const Failure &failure)
{
	return failure.retry ? kAttemptsUsedUp : failure.reason;
}

static TimestampTz
next_run_at(const Failure &failure, const QueueOptions &options, int32 failed)
{
	if (failure.retry_at != 0)
		return failure.retry_at;
	if (failure.has_retry_in)
		return retry_time(failure);
	return wall_now() +
		   backoff_delay(options.backoff, failed, pg_prng_double(&pg_global_prng_state));
}

static AttemptEnd
attempt_end(WriteResult result, AttemptEnd done)
{
	if (result == WriteResult::kDone)
		return done;
	return result == WriteResult::kBusy ? AttemptEnd::kBusy : AttemptEnd::kGone;
}

AttemptEnd
put_back(SegmentSet &segments, const QueueRef &from, const JobRow &row, const Retry &retry,
		 bool wait)
{
	/*
	 * A user's SQL may have moved the job to another queue. If that queue has no slot, there is no
	 * memory to file the hint in.
	 */
	QueueRef to = from;
	bool attached = row.queue_id() == from.queue_id ||
					find_attached_queue(tables().database, row.queue_id(), &to);
	if (attached)
		reserve_hints(to, tables().queue, 1);
	Hint hint;
	SchedulingColumns was;
	WriteResult written = rewrite_job(segments, row.place, row.job_id(), retry, wait, &hint, &was);
	if (written == WriteResult::kDone)
		note_rewritten(from, was, hint, was.queue_id);
	if (written == WriteResult::kDone && attached)
		add_hint(to, hint, false);
	return attempt_end(written, AttemptEnd::kRetry);
}

static AttemptEnd
retry(SegmentSet &segments, const EndingLease &ending, const JobRow &row, const Failure &failure,
	  bool wait)
{
	Retry retry{};
	retry.attempts = row.next_attempt();
	retry.run_at = next_run_at(failure, ending.options, retry.attempts);
	retry.fence = failure.fence;
	retry.has_error = failure.has_error;
	retry.error = failure.error;
	return put_back(segments, ending.ref, row, retry, wait);
}

/* Retry the job, or make it a dead letter if its attempts are used up or failure.retry is false. */
static AttemptEnd
retry_or_bury(SegmentSet &segments, const EndingLease &ending, const Failure &failure, bool wait)
{
	JobRow row;
	WriteResult located = locate_job(segments, ending.place, ending.job_id, wait, &row);
	if (located != WriteResult::kDone)
		return attempt_end(located, AttemptEnd::kRetry);
	if (failure.loss == nullptr)
		note_member_in_hand(row.batch());
	int32 failed = row.next_attempt();
	bool used_up = failed >= row.max_attempts(ending.options.max_attempts);
	if (failure.retry && !used_up)
		return retry(segments, ending, row, failure, wait);
	const Death death = {failed, failure.fence, reason_of_death(failure), failure.has_error,
						 failure.error};
	return attempt_end(
		end_row(segments, ending.ref, row.place, ending.job_id, RowEnd::kDead, &death, wait),
		AttemptEnd::kDead);
}

/*
 * Call judge(), which reads and writes the row. Call judge() again if the write was refused because
 * another transaction had changed the row while the write waited. Without `wait` (as in the
 * scheduler), return kBusy instead, and the caller tries again later.
 */
template <typename Judge>
static AttemptEnd
judge_to_the_end(bool wait, Judge judge)
{
	AttemptEnd end;
	do
		end = judge();
	while (wait && end == AttemptEnd::kBusy);
	return end;
}

AttemptEnd
end_failed_attempt(SegmentSet &segments, const EndingLease &ending, const Failure &failure,
				   bool wait)
{
	Outcome outcome = failure.loss != nullptr ? Outcome::kLost : Outcome::kFailed;
	AttemptEnd end =
		judge_to_the_end(wait, [&] { return retry_or_bury(segments, ending, failure, wait); });
	Records records;
	switch (end)
	{
		case AttemptEnd::kRetry:
			record_attempt(records, ending, outcome, &failure);
			break;
		case AttemptEnd::kDead:
			record_attempt(records, ending, outcome, &failure, reason_of_death(failure));
			set_dead(ending.lease);
			break;
		case AttemptEnd::kGone:
			set_end(ending.lease, LeaseEnd::kUncounted);
			break;
		case AttemptEnd::kBusy:
			set_end(ending.lease, LeaseEnd::kLostBusy);
			break;
	}
	records.write();
	return end;
}

/*
 * Return the run_at of a released job. With a delay, run_at is also later than enqueued_at: the job
 * must count as delayed even if the clock was set back since the enqueue.
 */
static TimestampTz
released_run_at(const JobRow &row, Datum delay)
{
	TimestampTz from = Max(wall_now(), DatumGetTimestampTz(row.value(kJobEnqueuedAt)));
	TimestampTz due = moment_after(from, delay, "delay");
	return due > from ? due : DatumGetTimestampTz(row.value(kJobRunAt));
}

static AttemptEnd
put_back_uncounted(SegmentSet &segments, const EndingLease &ending, int64 fence, Datum delay)
{
	JobRow row;
	if (locate_job(segments, ending.place, ending.job_id, true, &row) != WriteResult::kDone)
		return AttemptEnd::kGone;
	Retry retry{};
	retry.attempts = DatumGetInt32(row.value(kJobAttempts));
	retry.run_at = released_run_at(row, delay);
	retry.fence = fence;
	retry.keeps_error = true;
	return put_back(segments, ending.ref, row, retry, true);
}

AttemptEnd
end_released_attempt(SegmentSet &segments, const EndingLease &ending, int64 fence, Datum delay)
{
	AttemptEnd end =
		judge_to_the_end(true, [&] { return put_back_uncounted(segments, ending, fence, delay); });
	Records records;
	if (end == AttemptEnd::kGone)
		set_end(ending.lease, LeaseEnd::kUncounted);
	else
		record_attempt(records, ending, Outcome::kReleased);
	records.write();
	return end;
}

} // namespace pgq
