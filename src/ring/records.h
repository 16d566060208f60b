/*
 * Moving records (dead letters, attempts, finished jobs) to another segment, and deleting records
 * that are past their time. Nothing in shared memory refers to records, so the scheduler moves and
 * deletes them by plain SQL, and waits for no other session.
 */
#pragma once

#include "catalog/tables.h"
#include "core/ring_policy.h"

namespace pgq {

/*
 * Move records as move_jobs() moves jobs, but by an UPDATE of the column `segment`, with row
 * triggers off. A session that waits for such a row gets 40001, as after any UPDATE between
 * partitions. Moves nothing while another session has a conflicting lock, for example to create or
 * drop a queue. clock: the wall clock, or 0 if the clock was set lately. In a ring that is
 * truncated by time (is_truncated_by_time()), rows past their time stay, and the TRUNCATE of the
 * segment removes them.
 */
bool move_records(const Segment &from, const Segment &to, TimestampTz clock, Position *next,
				  int most, int *moved);

/*
 * Delete at most `most` records of the segment that their queue keeps no longer, as its option says
 * (RingSpec::keep). Does nothing in a ring that is truncated by time. Locked rows stay, and so do
 * rows whose queue does not exist. Returns the number of deleted rows. The caller has locked the
 * extension's tables.
 */
int expire_records(const Segment &segment, TimestampTz now, int most);

} // namespace pgq
