/* Moving jobs to another segment. See README.md in this folder for what other sessions see. */
#pragma once

#include "catalog/tables.h"
#include "core/ring_policy.h"

namespace pgq {

/*
 * Move at most `most` live rows from *next on, each under its job's lease. A row that another
 * transaction is changing, or whose job already has a lease, stays. *next: set to the place from
 * which the next call goes on. *moved: the number of moved rows. Returns true at the end of the
 * segment, and if another session keeps moves from beginning (QueueLock::kJobMoves). The caller has locked
 * both segments for writing.
 */
bool move_jobs(const Segment &from, const Segment &to, Position *next, int most, int *moved);

/*
 * Wait until the transaction `mover`, which moves rows of the queue (queue->mover), has ended.
 * Returns at once if `mover` is invalid.
 */
void wait_for_mover(const QueueRef &ref, VirtualTransactionId mover);

} // namespace pgq
