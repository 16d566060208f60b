/*
 * Which queue a job was of that has been in work lately. Who answers for it with a lease that is not
 * current is counted there, also if the job is gone.
 *
 * One place for so many ids, where the last one is: each a single word, written by who ends a lease
 * and read without a lock. What is found proves little: who reads checks that the slot is that of a
 * queue of his database, and the same as then.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

inline constexpr int kEndedJobs = 16384;

Size ended_jobs_size();
void place_ended_jobs(void *memory);

/* Its lease ends. Under its queue's lock. */
void note_ended_job(const Queue *queue, int64 job_id);

/* The queue of a job of that database that is, or was, in work. False: nobody knows. */
bool find_queue_of_job(const Database *db, int64 job_id, QueueRef *ref);

} // namespace pgq
