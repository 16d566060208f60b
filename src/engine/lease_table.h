/*
 * The lease table itself. Only for this folder: lease.h is what others see.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

Size lease_table_size();
void lease_table_create(LWLockPadded *partition_locks);
inline constexpr int kLeasePartitions = 16;

/* Under the queue's lock: the entry for that job, or who has it (*found), or NULL: the table is full. */
Lease *enter_lease(Queue *queue, int64 job_id, bool *found);

/* Under the lease's queue's lock: the entry is free afterwards. */
void remove_lease(Lease *lease);

} // namespace pgq
