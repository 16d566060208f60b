/*
 * Moving jobs to another segment. README.md in this folder says who sees what meanwhile.
 */
#pragma once

#include "catalog/tables.h"
#include "core/ring_policy.h"

namespace pgq {

/*
 * Move live rows from *next on, each under its job's lease, at most `most` of them. Rows that
 * somebody has in hand stay. *next goes on; true: it is at the end. *moved: how many were. Both
 * segments are locked for writing.
 */
bool move_jobs(const Segment &from, const Segment &to, Position *next, int most, int *moved);

/* Wait for the end of the transaction that has moved rows of the queue (queue->mover), if it is one. */
void wait_for_mover(const QueueRef &ref, VirtualTransactionId mover);

} // namespace pgq
