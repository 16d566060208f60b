#include "engine/lease_table.h"

#include "engine/lease_quota.h"

namespace pgq {

static constinit HTAB *lease_table = nullptr;
static constinit LWLockPadded *partition_locks = nullptr;

/* Mix the bits of x: each bit of the result depends on all of them (the finalizer of MurmurHash3). */
static uint64
mixed(uint64 x)
{
	x = (x ^ (x >> 33)) * UINT64CONST(0xFF51AFD7ED558CCD);
	x = (x ^ (x >> 33)) * UINT64CONST(0xC4CEB9FE1A85EC53);
	return x ^ (x >> 33);
}

/*
 * Return the hash of a key. Jobs are mostly claimed in the order of their ids, and their rows are
 * read in that order, too. So eight consecutive ids have adjacent buckets in one cache line, and
 * the cache lines are spread at random. This hash spreads the ids evenly even if all ids of a
 * database end in the same bits, the number of its shard.
 */
static uint32
lease_hash(const LeaseKey &key)
{
	static constexpr int kLineBits = 3;
	static constexpr int kShardBits = 10;
	uint32 place =
		static_cast<uint32>(key.job_id ^ (key.job_id >> kShardBits)) & ((1U << kLineBits) - 1);
	uint64 slot = (static_cast<uint64>(key.generation) << 32) | key.database;
	uint64 line = mixed(mixed(slot) ^ static_cast<uint64>(key.job_id >> kLineBits));
	return (static_cast<uint32>(line) << kLineBits) | place;
}

static uint32
hash_of_key(const void *key, Size)
{
	return lease_hash(*static_cast<const LeaseKey *>(key));
}

Size
lease_table_size()
{
	return hash_estimate_size(lease_entries(), sizeof(Lease));
}

void
lease_table_create(LWLockPadded *locks)
{
	HASHCTL info{};
	info.keysize = sizeof(LeaseKey);
	info.entrysize = sizeof(Lease);
	info.num_partitions = kLeasePartitions;
	info.hash = hash_of_key;
	lease_table = new_shared_hash("pgq_ext leases", lease_entries(), &info,
								  HASH_ELEM | HASH_FUNCTION | HASH_PARTITION | HASH_FIXED_SIZE);
	partition_locks = locks;
}

static LWLock *
partition_lock(uint32 hash)
{
	return &partition_locks[hash % kLeasePartitions].lock;
}

static LeaseKey
lease_key(const Database *db, uint32 generation, int64 job_id)
{
	return {static_cast<uint32>(db - shared->databases), generation, job_id};
}

Lease *
enter_lease(Queue *queue, int64 job_id, bool *found)
{
	LeaseKey key = lease_key(queue->database, queue->database_generation, job_id);
	uint32 hash = lease_hash(key);
	LWLockAcquire(partition_lock(hash), LW_EXCLUSIVE);
	auto *entry = static_cast<Lease *>(
		hash_search_with_hash_value(lease_table, &key, hash, HASH_ENTER_NULL, found));
	if (entry != nullptr && !*found)
		entry->queue = queue;
	LWLockRelease(partition_lock(hash));
	return entry;
}

void
remove_lease(Lease *lease)
{
	LeaseKey key = lease->key;
	uint32 hash = lease_hash(key);
	LWLockAcquire(partition_lock(hash), LW_EXCLUSIVE);
	pg_atomic_write_u64(&lease->serial, 0);
	pg_atomic_write_u64(&lease->token, 0);
	hash_search_with_hash_value(lease_table, &key, hash, HASH_REMOVE, nullptr);
	LWLockRelease(partition_lock(hash));
}

Lease *
holder_of(const Queue *queue, int64 job_id)
{
	LeaseKey key = lease_key(queue->database, queue->database_generation, job_id);
	uint32 hash = lease_hash(key);
	bool found;
	LWLockAcquire(partition_lock(hash), LW_SHARED);
	auto *lease = static_cast<Lease *>(
		hash_search_with_hash_value(lease_table, &key, hash, HASH_FIND, &found));
	LWLockRelease(partition_lock(hash));
	return lease;
}

bool
find_lease(const Database *db, int64 job_id, Lease **lease, QueueRef *ref)
{
	LeaseKey key = lease_key(db, generation_of(db), job_id);
	uint32 hash = lease_hash(key);
	bool found;
	LWLockAcquire(partition_lock(hash), LW_SHARED);
	*lease = static_cast<Lease *>(
		hash_search_with_hash_value(lease_table, &key, hash, HASH_FIND, &found));
	if (found)
	{
		/*
		 * As long as a slot has leases it keeps its queue_id, though it may already have its next
		 * generation.
		 */
		Queue *queue = (*lease)->queue;
		*ref = {queue, pg_atomic_read_u32(&queue->generation), queue->queue_id};
	}
	LWLockRelease(partition_lock(hash));
	return found;
}

bool
segment_of_leased(const Database *db, int64 job_id, uint16 *segment)
{
	QueueRef ref;
	Lease *lease;
	bool found = find_lease(db, job_id, &lease, &ref);
	if (found)
		*segment = lease->segment;
	return found;
}

} // namespace pgq
