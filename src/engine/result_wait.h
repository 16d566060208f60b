/*
 * Who waits for the end of a job (pgq_result), one a process, and how it ended: whoever applies a commit
 * tells them. What the tables do not keep nobody could learn afterwards.
 *
 * The waits are in buckets by job, and whoever ends a job asks without a lock whether its bucket is empty.
 * Nobody is missed: who waits counts himself in, then, after a full barrier, looks at the rows; who ends the job has
 * changed the rows for all to see, then, after a full barrier, asks. Either he sees the count, or the
 * other one sees that the row is gone. The barriers are pg_atomic_fetch_add_u32 of the one, LWLockAcquire of the
 * queue's lock of the other.
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

/* This process waits, until end_result_wait(); cannot fail from there on. */
void begin_result_wait(const Database *db, int64 job_id);
/* *queue_id: of which queue it was then, if it ended. */
JobEnd end_result_wait(int32 *queue_id);
bool waits_for_result();

/* Those of which a part of the hash of the job's id is the same. */
struct ResultBucket
{
	pg_atomic_uint32 waiting; /* written under results_lock */
	int first;				  /* my_procno(), or kNobody. Under results_lock */
};
static_assert(std::is_trivially_copyable_v<ResultBucket> &&
			  std::is_standard_layout_v<ResultBucket>);

inline constexpr int kResultBucketBits = 8;

inline ResultBucket *
result_bucket(int64 job_id)
{
	/* Fibonacci hashing. */
	return &shared->result_buckets[(static_cast<uint64>(job_id) * UINT64_C(0x9E3779B97F4A7C15)) >>
								   (64 - kResultBucketBits)];
}

/* Under the queue's lock: may anybody wait for that job? */
inline bool
may_be_waited_for(int64 job_id)
{
	return value_of(result_bucket(job_id)->waiting) > 0;
}

/*
 * Under the queue's lock, whose order is before this one's: the job ends. True: who was told is to
 * be woken, by wake_told() when no lock is held any more.
 */
bool tell_waiting(const Database *db, int32 queue_id, int64 job_id, JobEnd end);
void wake_told();

Size result_waits_size();
void place_result_waits(void *memory);

} // namespace pgq
