/*
 * Reading rows of groups, for claims of a queue with rules for groups that cannot pop (core/ready_jobs.h): visits of
 * markers, and in a queue with fair steps of the lap. As a refill (refill.h), each is done by one process at a time, which
 * holds a heavyweight lock meanwhile.
 */
#pragma once

#include "load/refill.h"

namespace pgq {

/* wait: for another process that does the same. */
RefillResult visit_groups(const QueueRef &ref, bool wait);
RefillResult step_of_lap(const QueueRef &ref, bool wait);

/* Most jobs that are kept of one group. */
inline constexpr int kJobsOfGroupMax = 32;
/* Rows that are read beyond those that are wanted, since some may have leases. */
inline constexpr int kBeyond = 2;

/* What was read of a group, in its order. With fifo: its head, if there is one. */
struct GroupRows
{
	Hint *rows;
	int n;
	Key next;	/* the first key that was not read; +infinity: there are no more rows */
	int64 head; /* fifo: its id; otherwise, and if there is none, PG_INT64_MAX */
};

/*
 * Of the rows, move those to the front that have no lease, as many as are wanted, and return how many these are.
 * rows->next becomes the first key that is not among those that were looked at. Under the queue's lock.
 */
int pick_free_rows(QueueHold &hold, GroupRows *rows, int wanted);

/* Find the head of a group, from that id on. Return false if not all segments are there. */
bool read_head_of(const QueueRef &ref, int64 group, int64 floor, GroupRows *rows);

} // namespace pgq
