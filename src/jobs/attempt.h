/*
 * The end of an attempt. If it was no success the row is rewritten for the next one, or the job
 * becomes a dead letter: one way for pgq_fail and for leases that were lost. Whoever ends an attempt
 * writes the record of it, if there is to be one, when its row has been written (protocol: records-end-with-the-row).
 */
#pragma once

#include "engine/lease_entry.h"
#include "rows/attempt.h"
#include "rows/write.h"

namespace pgq {

/* Why a job is dead that failed once too often. */
inline constexpr char kAttemptsUsedUp[] = "attempts used up";

struct Failure
{
	int64 fence;	   /* token of the lease that ends */
	bool retry;		   /* false: dead at once */
	bool has_retry_in; /* otherwise by backoff */
	Datum retry_in;	   /* interval */
	bool has_error;
	Datum error;		/* text */
	const char *reason; /* of death, when attempts are not used up */
	const char *loss;	/* how the lease was lost; NULL: it was not */
};

/*
 * Of a lost lease. Its worker may still say why (fail_job()), as long as the fence of the row says that it was lost and
 * that nobody has the job, or has had it, since: it is the token, negative.
 */
Failure failure_by(Loss loss, int64 token);

enum class AttemptEnd : uint8
{
	kRetry,
	kDead,
	kGone, /* the row is not there any more */
	kBusy, /* without wait: somebody is at the row, or has changed it */
};

/* What a lease knows of an attempt. */
struct Run
{
	int64 token;
	TimestampTz claimed_at;
	int32 attempt;
	char worker[kWorkerNameMax + 1];
};

/* Under the queue's lock. */
void note_run(const Lease *lease, Run *run);

/* A lease that this transaction ends at commit, and where the row of its job is. */
struct EndingLease
{
	QueueRef ref;
	QueueOptions options;
	Lease *lease;
	int64 job_id;
	Place place;
	Run run; /* noted if is_recorded() */
};

/* Under the queue's lock; its run is noted where somebody wants to know it. */
inline void
note_ending(const QueueRef &ref, Lease *lease, EndingLease *ending)
{
	ending->ref = ref;
	ending->options = ref.queue->options;
	ending->lease = lease;
	ending->job_id = lease->key.job_id;
	ending->place = lease->hint.place;
}

/* When a failure with retry_in is due again. */
TimestampTz retry_time(const Failure &failure);

/*
 * Rewrite the row, as it was read, for its next attempt, and register its hint; from: the queue of its lease. kBusy, also after
 * a wait: others have changed it since.
 */
AttemptEnd put_back(SegmentSet &segments, const QueueRef &from, const JobRow &row,
					const Retry &retry, bool wait);

/* Is there to be a record of an attempt that ends so? */
inline bool
is_recorded(const QueueOptions &options, Outcome outcome)
{
	if (options.log_attempts == LogAttempts::kNone || options.keep_attempts == 0)
		return false;
	return options.log_attempts == LogAttempts::kAll || outcome == Outcome::kFailed ||
		   outcome == Outcome::kLost;
}

/* Add it, if there is to be one. failure: of kFailed and kLost, with why it was the job's last, or NULL. */
void record_attempt(Records &records, const EndingLease &ending, Outcome outcome,
					const Failure *failure = nullptr, const char *death = nullptr);

/* Given back by who has it: nothing is counted. delay (interval): none, and it keeps its place. */
AttemptEnd end_released_attempt(SegmentSet &segments, const EndingLease &ending, int64 fence,
								Datum delay);

/* Also says how the lease ends: counted or not, put off (kBusy), with the job's death. Registers the hint for the retry. */
AttemptEnd end_failed_attempt(SegmentSet &segments, const EndingLease &ending,
							  const Failure &failure, bool wait);

} // namespace pgq
