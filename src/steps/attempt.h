/*
 * The end of an attempt. After a failure the row is rewritten for the next attempt, or the job
 * becomes a dead letter; pgq_fail and lost leases use the same code. The code that ends an attempt
 * also writes the record of the attempt, if the queue keeps one, after the row
 * (protocol: records-end-with-the-row).
 */
#pragma once

#include "engine/lease_entry.h"
#include "rows/attempt.h"
#include "steps/end_row.h"

namespace pgq {

/* The reason in a dead letter after the last allowed attempt has failed. */
inline constexpr char kAttemptsUsedUp[] = "attempts used up";

struct Failure
{
	/*
	 * token of the lease that ends; negated if the lease was lost and its worker has not reported a
	 * failure
	 */
	int64 fence;
	bool retry;		   /* false: the job dies at once */
	bool has_retry_in; /* false: the delay is the backoff */
	Datum retry_in;	   /* interval */
	/* when to retry; 0: after retry_in, or after the backoff */
	TimestampTz retry_at;
	bool has_error;
	Datum error;		/* text */
	const char *reason; /* reason of death if retry is false */
	const char *loss;	/* how the lease was lost; NULL: the worker has reported the failure */
};

/*
 * Return the failure for a lost lease. The fence of this failure is the negative token, which marks
 * the lease as lost. While the row has this fence, no other worker has had the job, and the worker
 * of the lost lease may still report why the attempt failed (fail_job()).
 */
Failure failure_by(Loss loss, int64 token);

enum class AttemptEnd : uint8
{
	kRetry,
	kDead,
	kGone, /* the row does not exist any more */
	kBusy, /* only without wait: another transaction has locked or changed the row */
};

/* The data of an attempt that only its lease has, and that the record of the attempt needs. */
struct Run
{
	int64 token;
	TimestampTz claimed_at;
	int32 attempt;
	char worker[kWorkerNameMax + 1];
};

/* Copy the data of the attempt from the lease. Caller holds the queue's lock. */
void note_run(const Lease *lease, Run *run);

/* A lease that this transaction ends at commit, and the place of its job's row. */
struct EndingLease
{
	QueueRef ref;
	QueueOptions options;
	Lease *lease;
	int64 job_id;
	Place place;
	Run run; /* set only if the attempt or the finished job gets a record */
};

/* Fill *ending, except `run`. Caller holds the queue's lock. */
inline void
note_ending(const QueueRef &ref, Lease *lease, EndingLease *ending)
{
	ending->ref = ref;
	ending->options = ref.queue->options;
	ending->lease = lease;
	ending->job_id = lease->key.job_id;
	ending->place = lease->hint.place;
}

/* Return the time at which the job becomes due again if the failure has a retry_in. */
TimestampTz retry_time(const Failure &failure);

/*
 * Rewrite the row for the next attempt, and have the hint of the new row filed at commit. from: the
 * queue of the lease.
 */
AttemptEnd put_back(SegmentSet &segments, const QueueRef &from, const JobRow &row,
					const Retry &retry, bool wait);

/* Return whether the queue keeps a record of an attempt with that outcome. */
inline bool
is_recorded(const QueueOptions &options, Outcome outcome)
{
	if (options.log_attempts == LogAttempts::kNone || options.keep_attempts == 0)
		return false;
	return options.log_attempts == LogAttempts::kAll || outcome == Outcome::kFailed ||
		   outcome == Outcome::kLost;
}

/*
 * Add the record of the attempt to `records`, if the queue keeps one. failure: set for kFailed and
 * kLost. death: why this was the job's last attempt, or NULL.
 */
void record_attempt(Records &records, const EndingLease &ending, Outcome outcome,
					const Failure *failure = nullptr, const char *death = nullptr);

/*
 * End the row of a job in hand, for a reason other than kDead, and record the end of its attempt.
 * Returns false if the row is gone; then the lease ends uncounted. result: jsonb or NULL, stored if
 * the queue keeps finished jobs. *deleted: as for end_row().
 */
bool end_attempt_and_row(SegmentSet &segments, Records &records, const EndingLease &ending,
						 RowEnd why, Outcome outcome, const Datum *result,
						 JobRow *deleted = nullptr);

/*
 * Put the job back for a worker that releases it; the attempt does not count. delay: an interval;
 * with a delay of zero the job keeps its run_at.
 */
AttemptEnd end_released_attempt(SegmentSet &segments, const EndingLease &ending, int64 fence,
								Datum delay);

/*
 * Count the failed attempt in the row, and have the hint of the retry filed at commit. Also note
 * how the lease ends: uncounted (kGone), put off (kBusy), or with the death of the job (kDead).
 */
AttemptEnd end_failed_attempt(SegmentSet &segments, const EndingLease &ending,
							  const Failure &failure, bool wait);

} // namespace pgq
