/*
 * What an administrator or a producer does to jobs by their ids: cancel, change, retry now.
 *
 * Of a waiting job the lease is taken first (waiting.h). A leased one is only cancelled: its worker hears of
 * it at its next pgq_extend, and finds its lease stale.
 */
#pragma once

#include "rows/write.h"

namespace pgq {

enum class JobState : uint8
{
	kNone,
	kReady,
	kScheduled,
	kLeased,
	kDead,
};

/* The job ends. Returns what it was. Waits for a transaction that has used its lease already, but for that of its claim. */
JobState cancel_job(int64 job_id);

/*
 * A waiting job is changed; to: NULL, or the queue that it moves to, locked for writing. What is new to a
 * worker cuts off late acks. False: there is none, or it is leased.
 */
bool update_job(int64 job_id, JobChange change, const QueueRef *to);

/* A waiting job is due delay (interval) from now, a dead one lives again, with all its attempts (PQ002: its queue is full). False: leased, or none. */
bool retry_job(int64 job_id, Datum delay);

/* The row of a waiting job whose lease is in hand is changed, and filed anew. False: it is gone. to: as above. */
bool change_waiting(SegmentSet &segments, const JobRow &row, const JobChange &change,
					const QueueRef *to);

/* A run_at for the row, so that it is due at that time, whatever the clock said when it was enqueued. */
TimestampTz put_off(const JobRow &row, TimestampTz run_at, TimestampTz now);

} // namespace pgq
