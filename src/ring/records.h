/*
 * Records: rows that nothing in memory leads to, as dead letters. What is done to them here is the
 * scheduler's, in plain SQL, and waits for nobody.
 */
#pragma once

#include "catalog/tables.h"
#include "core/ring_policy.h"

namespace pgq {

/*
 * As move_jobs(). An UPDATE of their segment does it, with row triggers off. Who waits for such a
 * row gets 40001, as with any UPDATE between partitions. Whoever creates or drops queues is given
 * way to. clock: as Rotation has it. Where segments are truncated by time, rows whose time is over
 * stay for that.
 */
bool move_records(const Segment &from, const Segment &to, TimestampTz clock, Position *next,
				  int most, int *moved);

/*
 * Delete records of a segment whose time has come, as their queue's option says (RingSpec::keep), at
 * most so many, but not where segments are truncated by time. Rows that somebody has locked stay, and
 * those without a queue. Returns how many were. The caller has locked the tables.
 */
int expire_records(const Segment &segment, TimestampTz now, int most);

} // namespace pgq
