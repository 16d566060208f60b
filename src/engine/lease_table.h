/*
 * The lease table: which lease a job has. The functions of this folder that take and end leases are
 * its only writers.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

Size lease_table_size();
void lease_table_create(LWLockPadded *partition_locks);
inline constexpr int kLeasePartitions = 16;

/* The lease of that job, or NULL. It may be of another queue, then do not touch it. */
Lease *holder_of(const Queue *queue, int64 job_id);

/*
 * Find a job's lease, without its queue's lock: under that the entry may be another's by now, or
 * free, which is_lease_of() tells. Both in one: change_lease() in hold.h. False: no lease.
 */
bool find_lease(const Database *db, int64 job_id, Lease **lease, QueueRef *ref);

struct FoundLease
{
	Lease *lease; /* NULL: none */
	QueueRef ref;
};

inline bool
is_lease_of(const Lease *lease, const QueueRef &ref, int64 job_id)
{
	bool in_use = serial_of(lease) != 0;
	pg_read_barrier();
	return in_use && lease->queue == ref.queue && lease->key.job_id == job_id;
}

/* In which segment the row of a leased job is, mostly: a guess, without any queue's lock. */
bool segment_of_leased(const Database *db, int64 job_id, uint16 *segment);

/* Only for lease.cpp. Under the queue's lock: the entry for that job, or who has it (*found), or NULL: the table is full. */
Lease *enter_lease(Queue *queue, int64 job_id, bool *found);

/* The same. The entry is free afterwards. */
void remove_lease(Lease *lease);

} // namespace pgq
