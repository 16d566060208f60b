/*
 * The end of an attempt that was not a success: the row is rewritten for the next one, or the
 * job becomes a dead letter. One way for pgq_fail and for leases that were lost.
 */
#pragma once

#include "rows/write.h"

namespace pgq {

struct Failure
{
	int64 fence;	   /* token of the lease that ends */
	bool retry;		   /* false: dead at once */
	bool has_retry_in; /* otherwise by backoff */
	Datum retry_in;	   /* interval */
	bool has_error;
	Datum error;		/* text */
	const char *reason; /* of death, when attempts are not used up */
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
	kBusy, /* without wait: somebody is at the row */
};

/* A lease that this transaction ends at commit, and where the row of its job is. */
struct EndingLease
{
	QueueRef ref;
	QueueOptions options;
	Lease *lease;
	int64 job_id;
	Place place;
};

/* When a failure with retry_in is due again. */
TimestampTz retry_time(const Failure &failure);

/* Rewrite the row for its next attempt, and register its hint; from: the queue of its lease. */
AttemptEnd put_back(SegmentSet &segments, const QueueRef &from, const JobRow &row,
					const Retry &retry, bool wait);

/* Given back by who has it: nothing is counted. delay in microseconds; 0: it keeps its place. */
AttemptEnd end_released_attempt(SegmentSet &segments, const EndingLease &ending, int64 fence,
								int64 delay);

/* Also says how the lease ends: counted or not, put off (kBusy), with the job's death. Registers the hint for the retry. */
AttemptEnd end_failed_attempt(SegmentSet &segments, const EndingLease &ending,
							  const Failure &failure, bool wait);

} // namespace pgq
