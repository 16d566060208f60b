/*
 * Operations of an administrator or a producer on jobs by their ids: cancel, change, retry now.
 *
 * For a waiting job the lease is taken first (steps/waiting.h). A leased job can only be cancelled: the
 * worker learns of the cancel at the next pgq_extend, and finds the lease stale after the commit.
 */
#pragma once

#include "jobs/job_filter.h"
#include "rows/record.h"
#include "rows/write.h"

namespace pgq {

enum class JobState : uint8
{
	kNone,
	kReady,
	kScheduled,
	kBlocked,
	kLeased,
	kDead,
};

/*
 * Cancel the job, and return the state that it had before. Waits for another transaction that uses
 * the lease of the job (as an ack does), but not for a transaction that has only claimed the job.
 */
JobState cancel_job(int64 job_id);

/*
 * End the job as if its worker had acknowledged it, whether it waits or a worker has it. Waits as
 * cancel_job() does. The caller writes the records. Returns false if there is no such job. *deleted
 * (unless NULL): the row of the job, in the current memory context.
 */
bool finish_job(SegmentSet &segments, Records &records, int64 job_id, JobRow *deleted = nullptr);

/*
 * Change a waiting job. to: the queue to which the job moves, locked for writing, or NULL. If the
 * change concerns data that a worker sees (payload, headers, queue), late acks of earlier workers
 * are refused. Returns false if there is no such job, or if the job is leased. as_read: change the job
 * only if it is due, and count an attempt.
 */
bool update_job(int64 job_id, JobChange change, const QueueRef *to, bool as_read = false);

/*
 * Make a waiting job due after `delay` (interval), or turn a dead letter back into a job, with
 * attempts counted from 0. Raises PQ002 if the queue of the dead letter is full. Returns false if
 * there is no such job, if the job is leased, or if it does not match the filter.
 */
bool retry_job(int64 job_id, Datum delay, const JobFilter &filter);

} // namespace pgq
