/*
 * How a lease can end, and what is counted of a queue.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* How a lease ends. */
enum class LeaseEnd : uint8
{
	kAcked,
	kFailed,
	kLost,
	kUncounted,	  /* the row was gone: nothing was written */
	kStillLost,	  /* not tried: the lease is lost as before */
	kLostBusy,	  /* the row was busy: lost, to be tried again soon */
	kLostFailing, /* the row could not be written: lost, to be tried again later and later */
	kMoved,		  /* its row was moved to another segment: the job itself has not changed */
	kReleased,	  /* given back */
	kCancelled,
	kExpired, /* nobody had the job: its time was over */
	kChanged, /* nobody had the job: it waits as another one, or no more */
};

/* Is the job gone for good? */
inline bool
is_gone(LeaseEnd how)
{
	return how == LeaseEnd::kAcked || how == LeaseEnd::kCancelled || how == LeaseEnd::kExpired;
}

/*
 * Since the queue was loaded; none of them counts what was rolled back, but for ghosts. Always
 * handed_out = ended() + leases that are handed out.
 */
struct QueueCounters
{
	int64 enqueued;
	int64 deduplicated; /* enqueues that were answered with a job that was there */
	int64 handed_out;
	int64 acked;
	int64 failed;
	int64 lost;
	int64 uncounted; /* the row was gone, or no scheduler was there to count it */
	int64 dead_lettered;
	int64 released;
	int64 cancelled; /* while they were handed out */
	int64 expired;	 /* while they waited */
	int64 ghosts;	 /* hints that a claim has dropped, since the row was gone */
	int64 repaired;	 /* forgotten jobs that the reconciler has found */

	/* Hand-outs that have ended, each in one of these ways. */
	int64 ended() const { return acked + failed + released + cancelled + lost + uncounted; }

	/* NULL: no hand-out has ended. */
	int64 *of(LeaseEnd how)
	{
		switch (how)
		{
			case LeaseEnd::kAcked:
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
 * Calls since the queue was loaded are counted whatever becomes of their transactions: most of these
 * end in an error, or change nothing. It takes no lock, so that a claim that finds nothing need not
 * take one for it. Who counts for a queue that is just being dropped may count for the next one in
 * its slot.
 */
enum class Call : uint8
{
	kClaim,		 /* that has looked into the queue */
	kEmptyClaim, /* ... and came back with nothing of it */
	kStale,		 /* a verb whose lease was not current */
	kRejected,	 /* an enqueue: the queue was full */
};
inline constexpr int kCalls = 4;

} // namespace pgq
