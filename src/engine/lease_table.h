/*
 * The lease table, which finds the lease of a job. Only the functions of this folder that take and
 * end leases write to it.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

Size lease_table_size();
void lease_table_create(LWLockPadded *partition_locks);
inline constexpr int kLeasePartitions = 16;

/*
 * Return the lease of the job; NULL: none. The caller must not touch a lease that belongs to
 * another queue.
 */
Lease *holder_of(const Queue *queue, int64 job_id);

/*
 * Find the lease of a job, without the lock of its queue. Return false if the job has no lease.
 * Before the caller gets that lock, the entry may be freed or reused, so the caller must check it
 * with is_lease_of(). change_lease() in hold.h does all of this.
 */
bool find_lease(const Database *db, int64 job_id, Lease **lease, QueueRef *ref);

struct FoundLease
{
	Lease *lease; /* NULL: the job has no lease */
	QueueRef ref;
};

inline bool
is_lease_of(const Lease *lease, const QueueRef &ref, int64 job_id)
{
	bool in_use = serial_of(lease) != 0;
	pg_read_barrier();
	return in_use && lease->queue == ref.queue && lease->key.job_id == job_id;
}

/* Return the segment in which the row of a leased job probably is. Takes no queue's lock. */
bool segment_of_leased(const Database *db, int64 job_id, uint16 *segment);

/*
 * Make an entry for a lease of the job in the table, or find the existing entry (*found). Return
 * NULL if the table is full. Only for lease.cpp, under the queue's lock.
 */
Lease *enter_lease(Queue *queue, int64 job_id, bool *found);

/* Remove the lease, and free its entry. Only for lease.cpp, under the queue's lock. */
void remove_lease(Lease *lease);

} // namespace pgq
