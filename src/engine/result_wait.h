/*
 * Waits for the end of a job (pgq_result). Each process waits for at most one job. A process that
 * applies a commit tells the waiters how the job has ended, since the tables may keep no record of
 * the job.
 *
 * The waits are in buckets by job id. A process that ends a job checks without a lock whether the
 * bucket is empty. No waiter is missed: the waiter increments the count of its bucket and, after a
 * full barrier, looks at the rows. The process that ends the job has made the change of the rows
 * visible and, after a full barrier, reads the count. So that process sees the count, or the waiter
 * sees that the row is gone. The barriers are pg_atomic_fetch_add_u32 in the waiter, and
 * LWLockAcquire of the queue's lock in the other process.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

enum class JobEnd : uint8
{
	kUnknown,
	kAcked,
	kCancelled,
	kExpired,
	kDead,
};

/*
 * Begin to wait for the end of the job. If the caller fails later, the abort callback ends the wait
 * by end_result_wait(), which cannot fail.
 */
void begin_result_wait(const Database *db, int64 job_id);
/*
 * End the wait. Return how the job has ended; kUnknown: this process was not told. *queue_id: the
 * queue of the job when it ended.
 */
JobEnd end_result_wait(int32 *queue_id);
bool waits_for_result();

/* The waits for all jobs with the same hash. */
struct ResultBucket
{
	pg_atomic_uint32 waiting; /* number of waits; written under results_lock, read without a lock */
	/* Procno of the first waiter, or kNobody; protected by results_lock. */
	int first;
};
static_assert(std::is_trivially_copyable_v<ResultBucket> &&
			  std::is_standard_layout_v<ResultBucket>);

inline constexpr int kResultBucketBits = 8;

inline ResultBucket *
result_bucket(int64 job_id)
{
	/* Fibonacci hashing: the highest bits of the product are the number of the bucket. */
	return &shared->result_buckets[(static_cast<uint64>(job_id) * UINT64_C(0x9E3779B97F4A7C15)) >>
								   (64 - kResultBucketBits)];
}

/* Return whether any process may wait for the job. Called under the queue's lock. */
inline bool
may_be_waited_for(int64 job_id)
{
	return value_of(result_bucket(job_id)->waiting) > 0;
}

/*
 * Tell all waiters of the job how it has ended. Called under the queue's lock; the results lock
 * comes after it in the lock order. Return true if a process was told. Then the caller must call
 * wake_told() when it holds no lock any more.
 */
bool tell_waiting(const Database *db, int32 queue_id, int64 job_id, JobEnd end);
void wake_told();

Size result_waits_size();
void place_result_waits(void *memory);

} // namespace pgq
