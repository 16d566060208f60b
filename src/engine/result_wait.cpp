#include "engine/result_wait.h"

#include "engine/database.h"
#include "pg/scope.h"

namespace pgq {

/* The wait of a process for the end of a job. Protected by results_lock, except for `told`. */
struct ResultWait
{
	const Database *database; /* NULL: the process does not wait */
	int64 job_id;
	JobEnd end;
	int32 queue_id; /* queue of the job, set when the job has ended */
	int next;		/* procno of the next waiter in the bucket, or kNobody */
	/*
	 * Not 0: the process was told how the job has ended, but was not woken yet. A superfluous
	 * wake-up does no harm.
	 */
	pg_atomic_uint32 told;
};
static_assert(std::is_trivially_copyable_v<ResultWait> && std::is_standard_layout_v<ResultWait>);

Size
result_waits_size()
{
	return add_size(sizeof(ResultBucket) << kResultBucketBits,
					mul_size(process_count(), sizeof(ResultWait)));
}

void
place_result_waits(void *memory)
{
	memset(memory, 0, result_waits_size());
	shared->result_buckets = static_cast<ResultBucket *>(memory);
	for (int i = 0; i < 1 << kResultBucketBits; i++)
	{
		shared->result_buckets[i].first = kNobody;
		pg_atomic_init_u32(&shared->result_buckets[i].waiting, 0);
	}
	shared->waits_for_results =
		reinterpret_cast<ResultWait *>(shared->result_buckets + (1 << kResultBucketBits));
	for (int i = 0; i < process_count(); i++)
		pg_atomic_init_u32(&shared->waits_for_results[i].told, 0);
}

static ResultWait *
mine()
{
	return &shared->waits_for_results[my_procno()];
}

static constinit bool waiting_for_result = false;

void
begin_result_wait(const Database *db, int64 job_id)
{
	ResultBucket *bucket = result_bucket(job_id);
	ResultWait *wait = mine();
	with_lwlock(shared->results_lock, LW_EXCLUSIVE, [&] {
		wait->database = db;
		wait->job_id = job_id;
		wait->end = JobEnd::kUnknown;
		wait->next = bucket->first;
		bucket->first = my_procno();
		/* A full barrier, so that the caller reads rows only after this increment. */
		pg_atomic_fetch_add_u32(&bucket->waiting, 1);
	});
	waiting_for_result = true;
}

static void
take_out(ResultBucket *bucket, const ResultWait *wait)
{
	int *link = &bucket->first;
	while (*link != my_procno())
		link = &shared->waits_for_results[*link].next;
	*link = wait->next;
	pg_atomic_fetch_sub_u32(&bucket->waiting, 1);
}

JobEnd
end_result_wait(int32 *queue_id)
{
	JobEnd end;
	ResultWait *wait = mine();
	*queue_id = 0;
	/* If a subtransaction was aborted during the wait, the abort has ended the wait. */
	if (!waiting_for_result)
		return JobEnd::kUnknown;
	with_lwlock(shared->results_lock, LW_EXCLUSIVE, [&] {
		end = wait->end;
		*queue_id = wait->queue_id;
		take_out(result_bucket(wait->job_id), wait);
		wait->database = nullptr;
	});
	waiting_for_result = false;
	return end;
}

bool
waits_for_result()
{
	return waiting_for_result;
}

bool
tell_waiting(const Database *db, int32 queue_id, int64 job_id, JobEnd end)
{
	bool told = false;
	LWLockAcquire(shared->results_lock, LW_EXCLUSIVE);
	for (int i = result_bucket(job_id)->first; i != kNobody;)
	{
		ResultWait &wait = shared->waits_for_results[i];
		if (wait.database == db && wait.job_id == job_id)
		{
			wait.end = end;
			wait.queue_id = queue_id;
			pg_atomic_write_u32(&wait.told, 1);
			told = true;
		}
		i = wait.next;
	}
	LWLockRelease(shared->results_lock);
	return told;
}

/*
 * Wake all processes that were told. Their number has no bound, so they are not collected in a
 * list. If several commits have told a process, any of these commits may wake it.
 */
void
wake_told()
{
	for (int i = 0; i < process_count(); i++)
	{
		pg_atomic_uint32 *told = &shared->waits_for_results[i].told;
		if (pg_atomic_read_u32(told) != 0 && pg_atomic_exchange_u32(told, 0) != 0)
			SetLatch(latch_of(i));
	}
}

} // namespace pgq
