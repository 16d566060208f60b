/*
 * Ways in which a lease can end, and the counters of a queue.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* The way in which a lease ends. */
enum class LeaseEnd : uint8
{
	kAcked,
	kFailed,
	kLost,
	kUncounted, /* the row was gone, so no attempt was counted */
	/* The scheduler has not tried to count the attempt: the lease stays LOST. */
	kStillLost,
	kLostBusy, /* the row was busy: the lease stays LOST, to be tried again soon */
	/*
	 * the row could not be written: the lease stays LOST, to be tried again after a growing delay
	 */
	kLostFailing,
	kMoved,	   /* the row was moved to another segment; the job has not changed */
	kReleased, /* the worker has given the job back */
	kCancelled,
	kExpired, /* a waiting job has expired (expires_in) */
	kChanged, /* a transaction has changed or removed a waiting job */
	kFinished, /* pgq_finish() has ended the job; counted as an ack, if it waited also as a hand-out */
};

/* Return whether the job is gone for good. */
inline bool
is_gone(LeaseEnd how)
{
	return how == LeaseEnd::kAcked || how == LeaseEnd::kFinished || how == LeaseEnd::kCancelled ||
		   how == LeaseEnd::kExpired;
}

/*
 * Return whether a verb has ended the job by its id. If a worker has the job, it does not know of
 * that, and goes on until it is told.
 */
inline bool
is_by_id(LeaseEnd how)
{
	return how == LeaseEnd::kCancelled || how == LeaseEnd::kFinished;
}

/*
 * Counters since the queue was loaded. Changes that were rolled back do not count, except in
 * `ghosts`. Invariant: handed_out = ended() + number of leases that are handed out.
 */
struct QueueCounters
{
	int64 enqueued;
	int64 deduplicated; /* enqueues that returned the id of an existing job */
	int64 handed_out;
	int64 acked;
	int64 failed;
	int64 lost;
	/*
	 * Leases that ended without a counted attempt: the row was gone, or no scheduler was running.
	 */
	int64 uncounted;
	int64 dead_lettered;
	int64 released;
	int64 cancelled; /* jobs cancelled while they were in work */
	int64 expired;	 /* jobs expired while they waited */
	int64 ghosts;	 /* hints that a claim has dropped because the row was gone */
	int64 repaired;	 /* jobs missing in memory that the reconciler has filed */

	/* Return how many hand-outs have ended in any way. */
	int64 ended() const { return acked + failed + released + cancelled + lost + uncounted; }

	/*
	 * Return the counter for this way in which a lease ends; NULL: this way does not end a
	 * hand-out.
	 */
	int64 *of(LeaseEnd how)
	{
		switch (how)
		{
			case LeaseEnd::kAcked:
			case LeaseEnd::kFinished:
				return &acked;
			case LeaseEnd::kFailed:
				return &failed;
			case LeaseEnd::kReleased:
				return &released;
			case LeaseEnd::kCancelled:
				return &cancelled;
			case LeaseEnd::kLost:
				return &lost;
			case LeaseEnd::kUncounted:
				return &uncounted;
			/* The other ways end no hand-out. */
			case LeaseEnd::kStillLost:
			case LeaseEnd::kLostBusy:
			case LeaseEnd::kLostFailing:
			case LeaseEnd::kMoved:
			case LeaseEnd::kExpired:
			case LeaseEnd::kChanged:
				break;
		}
		return nullptr;
	}
};

/*
 * Calls that are counted even if their transactions roll back, since most of these calls end in an
 * error or change nothing. The counters are atomics, so a claim that finds no job takes no lock
 * only to be counted. A call for a queue that is just being dropped may count for the next queue in
 * the slot.
 */
enum class Call : uint8
{
	kClaim,		 /* a claim that has looked for jobs in the queue */
	kEmptyClaim, /* a claim that returned no job of the queue */
	kStale,		 /* a call with a stale lease */
	kRejected,	 /* an enqueue that failed because the queue was full */
	kSkipped,	 /* a job that a publish has left out because the queue was full */
};
inline constexpr int kCalls = 5;

} // namespace pgq
