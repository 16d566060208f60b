#include "jobs/lost_attempt.h"

#include "catalog/subscription.h"
#include "engine/hold.h"
#include "engine/token.h"
#include "jobs/dead_letter.h"
#include "load/attach.h"
#include "steps/in_hand.h"
#include "steps/permission.h"
#include "txn/effects.h"

namespace pgq {

/* ---- lost attempts that are not counted yet ---- */

/*
 * Count the lost attempt, with the error that the worker reports. If the lost lease that was taken
 * belongs to another worker, count the attempt of that worker without this error, and return kGone.
 */
static AttemptEnd
count_with_answer(SegmentSet &segments, const TakenLease &taken, const JobRow &row,
				  const Failure &failure)
{
	EndingLease ending = ending_of(taken, row);
	bool ours = ending.run.token == failure.fence;
	AttemptEnd end = end_failed_attempt(
		segments, ending, ours ? failure : failure_by(taken.loss, ending.run.token), true);
	return ours ? end : AttemptEnd::kGone;
}

/* ---- lost attempts that are already counted ---- */

static bool
says_lost(const JobRow &row, int64 token)
{
	return !row.is_null(kJobFence) && DatumGetInt64(row.value(kJobFence)) == -token;
}

static AttemptEnd
bury_counted(SegmentSet &segments, const TakenLease &taken, const JobRow &row,
			 const Failure &failure)
{
	const Death death = {.attempts = DatumGetInt32(row.value(kJobAttempts)),
						 .fence = failure.fence,
						 .reason = failure.reason,
						 .has_error = failure.has_error || !row.is_null(kJobLastError),
						 .error = failure.has_error ? failure.error : row.value(kJobLastError)};
	if (end_row(segments, taken.ref, row.place, row.job_id(), RowEnd::kDead, &death, true) !=
		WriteResult::kDone)
		return AttemptEnd::kGone;
	if (taken.lease == nullptr)
	{
		leave_to_row(taken, row, JobEnd::kDead);
		return AttemptEnd::kDead;
	}
	reserve_lease_effects(1);
	tell_at_commit(taken.ref, taken.lease, LeaseEnd::kChanged, true);
	return AttemptEnd::kDead;
}

static AttemptEnd
amend(SegmentSet &segments, const TakenLease &taken, const JobRow &row, const Failure &failure)
{
	explain_attempt(row.job_id(), failure.fence, failure.has_error, failure.error,
					failure.retry ? nullptr : failure.reason);
	if (!failure.retry)
		return bury_counted(segments, taken, row, failure);
	Retry retry{};
	/* The column `attempts` counts the lost attempt already. */
	retry.attempts = DatumGetInt32(row.value(kJobAttempts));
	retry.run_at =
		failure.has_retry_in ? retry_time(failure) : DatumGetTimestampTz(row.value(kJobRunAt));
	retry.fence = failure.fence;
	retry.keeps_error = !failure.has_error;
	retry.has_error = failure.has_error;
	retry.error = failure.error;
	return put_back(segments, taken.ref, row, retry, true);
}

static AttemptEnd
explain_death(int64 job_id, const Failure &failure)
{
	if (!explain_dead_letter(job_id, failure.fence, failure.has_error, failure.error))
		return AttemptEnd::kGone;
	explain_attempt(job_id, failure.fence, failure.has_error, failure.error, kAttemptsUsedUp);
	return AttemptEnd::kDead;
}

/* ---- fail with a lost lease ---- */

/*
 * Return whether the lease with that token is lost, and its attempt is not counted yet or is just
 * being counted.
 */
static bool
is_lost(int64 job_id, int64 token)
{
	bool lost = false;
	(void) look_at_lease(tables().database, job_id, [&](const Lease &lease) {
		lost = token_of(&lease) == token && (lease.state == LeaseState::kLost ||
											 lease.state == LeaseState::kReaping || lease.doomed);
	});
	return lost;
}

/*
 * Return whether the token was drawn since the last load of the database. For an older token, the
 * fence does not show whether another worker has had the job since: a claim writes no fence, and a
 * crash loses the lease of the claim.
 */
static bool
is_of_this_start(int64 token)
{
	Load load = read_load(tables().database, tables().database_generation);
	return token > 0 && prefix_of(token) >= load.base_prefix;
}

AttemptEnd
fail_lost(SegmentSet &segments, int64 job_id, const Failure &failure)
{
	int64 token = failure.fence;
	JobRow row;
	TakenLease taken;
	if (!is_of_this_start(token))
		return AttemptEnd::kGone;
	refuse_if_subscribed();
	auto there = [&](const Place &place) {
		return locate_permitted(segments, place, job_id, Permission::kAnswer, &row);
	};
	/*
	 * Look at the lease before the row is read. If the attempt is counted in between, the row shows
	 * that. If the row were read first, neither the row nor the lease might show the attempt.
	 */
	bool lost = is_lost(job_id, token);
	if (!there(Place{}))
		return explain_death(job_id, failure);
	if ((!lost && !says_lost(row, token)) || !take_waiting(row, LeaseEnd::kChanged, true, &taken))
		return AttemptEnd::kGone;
	/*
	 * Lock and read the row again. Another transaction that had the lease may have changed or ended
	 * the job, perhaps by counting this attempt. SQL may be changing the row at this moment.
	 */
	bool may_end = taken.lost || !failure.retry;
	(void) (may_end ? lock_job : lock_job_to_change)(segments, row.place, job_id);
	if (!there(row.place))
	{
		give_back_gone(taken);
		return explain_death(job_id, failure);
	}
	if (taken.lost)
		return count_with_answer(segments, taken, row, failure);
	AttemptEnd end =
		says_lost(row, token) ? amend(segments, taken, row, failure) : AttemptEnd::kGone;
	if (end != AttemptEnd::kDead)
		leave_to_row(taken, row, JobEnd::kUnknown);
	return end;
}

} // namespace pgq
