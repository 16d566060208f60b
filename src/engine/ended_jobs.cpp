#include "engine/ended_jobs.h"

#include "engine/lease_table.h"

namespace pgq {

/*
 * A word contains the number of the queue's slot, the lowest bits of the slot's generation, and the
 * lowest bits of the job id.
 */
static constexpr int kSlotBits = 16;
static constexpr int kGenerationBits = 8;

Size
ended_jobs_size()
{
	return kEndedJobs * sizeof(pg_atomic_uint64);
}

void
place_ended_jobs(void *memory)
{
	shared->ended_jobs = static_cast<pg_atomic_uint64 *>(memory);
	for (int i = 0; i < kEndedJobs; i++)
		pg_atomic_init_u64(&shared->ended_jobs[i], 0);
}

static uint64
word_of_end(const QueueRef &ref, int64 job_id)
{
	auto slot = static_cast<uint64>(ref.queue - shared->queues);
	uint64 generation = ref.generation & ((1 << kGenerationBits) - 1);
	return static_cast<uint64>(job_id) << (kSlotBits + kGenerationBits) | generation << kSlotBits |
		   slot;
}

/*
 * Return the place of the job. The ids of jobs that were enqueued one after the other differ by 1,
 * or in a shard by kShards. In both cases these jobs have different places.
 */
static pg_atomic_uint64 *
place_of_job(const Database *db, int64 job_id)
{
	static constexpr uint64 kApart = 5003;
	static constexpr uint64 kShards = 1024;
	auto database = static_cast<uint64>(db - shared->databases);
	auto id = static_cast<uint64>(job_id);
	return &shared->ended_jobs[(id + id / kShards + database * kApart) % kEndedJobs];
}

void
note_ended_job(const Queue *queue, int64 job_id)
{
	QueueRef ref = {const_cast<Queue *>(queue), value_of(queue->generation), queue->queue_id};
	pg_atomic_write_u64(place_of_job(queue->database, job_id), word_of_end(ref, job_id));
}

bool
find_queue_of_job(const Database *db, int64 job_id, QueueRef *ref)
{
	Lease *lease;
	if (find_lease(db, job_id, &lease, ref))
		return true;
	uint64 word = pg_atomic_read_u64(place_of_job(db, job_id));
	uint64 slot = word & ((1 << kSlotBits) - 1);
	return word != 0 && slot < static_cast<uint64>(shared->max_queues) &&
		   ref_of(&shared->queues[slot], ref) && ref->queue->database == db &&
		   word == word_of_end(*ref, job_id);
}

} // namespace pgq
