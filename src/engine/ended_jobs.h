/*
 * Remembers the queues of jobs that were in work lately, so that a call with a stale lease can be
 * counted in the queue of the job, even if the job is gone.
 *
 * The number of places is fixed. Each job id has one place, which remembers the last ended job with
 * this place. A place is a single atomic word, written at the end of a lease and read without a
 * lock. The word contains only parts of the queue's identity and of the job id. So the reader
 * checks that the slot is in use, belongs to a queue of its database, and still has the generation
 * in the word.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

inline constexpr int kEndedJobs = 16384;

Size ended_jobs_size();
void place_ended_jobs(void *memory);

/* Note that the lease of the job ends. Called under the queue's lock. */
void note_ended_job(const Queue *queue, int64 job_id);

/*
 * Find the queue of a job that is in work, or was lately. Return false if memory does not know the
 * queue of the job.
 */
bool find_queue_of_job(const Database *db, int64 job_id, QueueRef *ref);

} // namespace pgq
