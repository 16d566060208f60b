/*
 * The end of an attempt. After a failure the row is rewritten for the next attempt, or the job
 * becomes a dead letter, in the same way for pgq_fail and for lost leases. The code that ends an
 * attempt also writes its record, if there is to be one, after the row (protocol:
 * records-end-with-the-row).
 */
#pragma once

#include "engine/lease_entry.h"
#include "rows/attempt.h"
#include "rows/write.h"

namespace pgq {

/* The reason in a dead letter after the last allowed attempt has failed. */
inline constexpr char kAttemptsUsedUp[] = "attempts used up";

struct Failure
{
	int64 fence;	   /* token of the lease that ends */
	bool retry;		   /* false: the job dies at once */
	bool has_retry_in; /* false: the delay is the backoff */
	Datum retry_in;	   /* interval */
	bool has_error;
	Datum error;		/* text */
	const char *reason; /* reason of death if retry is false */
	const char *loss;	/* how the lease was lost; NULL: it was not lost */
};

/*
 * Return the failure for a lost lease. Its fence is the negative token, which says that the lease
 * was lost. As long as the row has that fence no worker has had the job since, and the worker of
 * the lost lease may still say why it failed (fail_job()).
 */
Failure failure_by(Loss loss, int64 token);

enum class AttemptEnd : uint8
{
	kRetry,
	kDead,
	kGone, /* the row is not there any more */
	kBusy, /* without wait: somebody is at the row, or has changed it */
};

/* What a lease knows about its attempt. */
struct Run
{
	int64 token;
	TimestampTz claimed_at;
	int32 attempt;
	char worker[kWorkerNameMax + 1];
};

/* Caller holds the queue's lock. */
void note_run(const Lease *lease, Run *run);

/* A lease that this transaction ends at commit, and the place of its job's row. */
struct EndingLease
{
	QueueRef ref;
	QueueOptions options;
	Lease *lease;
	int64 job_id;
	Place place;
	Run run; /* set only if a record needs it */
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

/* Return when a failed job with retry_in is due again. */
TimestampTz retry_time(const Failure &failure);

/* Rewrite the row for its next attempt, and register its hint. from: the queue of the lease. */
AttemptEnd put_back(SegmentSet &segments, const QueueRef &from, const JobRow &row,
					const Retry &retry, bool wait);

/* Return whether an attempt with that outcome gets a record. */
inline bool
is_recorded(const QueueOptions &options, Outcome outcome)
{
	if (options.log_attempts == LogAttempts::kNone || options.keep_attempts == 0)
		return false;
	return options.log_attempts == LogAttempts::kAll || outcome == Outcome::kFailed ||
		   outcome == Outcome::kLost;
}

/*
 * Add the record of the attempt, if it gets one. failure: set for kFailed and kLost. death: why
 * this was the job's last attempt, or NULL.
 */
void record_attempt(Records &records, const EndingLease &ending, Outcome outcome,
					const Failure *failure = nullptr, const char *death = nullptr);

/*
 * Put the job back for a worker that releases it; no attempt is counted. delay: an interval; if it
 * is zero the job keeps its run_at.
 */
AttemptEnd end_released_attempt(SegmentSet &segments, const EndingLease &ending, int64 fence,
								Datum delay);

/*
 * Count the failed attempt in the row, and register the hint of the retry. Also sets how the lease
 * ends: uncounted (kGone), put off (kBusy), or with the death of the job (kDead).
 */
AttemptEnd end_failed_attempt(SegmentSet &segments, const EndingLease &ending,
							  const Failure &failure, bool wait);

} // namespace pgq
