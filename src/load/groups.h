/*
 * Reading rows of groups, in a queue with rules for groups: visits of markers, and in a queue with
 * fair steps of the lap. A claim that can pop no job does this (core/ready_jobs.h). As in a refill
 * (refill.h), at most one process at a time visits markers of a queue, and at most one makes a step.
 * This process holds a heavyweight lock of the queue until the visits or the step have ended.
 */
#pragma once

#include "load/refill.h"
#include "rows/segment_set.h"

namespace pgq {

class QueueHold;

/*
 * visit_groups() visits the first markers. step_of_lap() reads the next groups of the lap. wait: if
 * another process holds the lock that is needed, wait for that process. Both functions take a set
 * of segments that are all closed; after kDone the segments are open, so that the caller can go on
 * to read.
 */
RefillResult visit_groups(const QueueRef &ref, bool wait, SegmentSet &segments);
RefillResult step_of_lap(const QueueRef &ref, bool wait, SegmentSet &segments);

/* The most jobs of one group that a visit or a step hands to memory. */
inline constexpr int kJobsOfGroupMax = 32;
/* Number of rows that are read beyond the wanted ones, since some rows may have leases. */
inline constexpr int kBeyond = 2;

/*
 * The rows of a group that were read, in key order. With fifo: the head alone, or no row if the
 * group has no head.
 */
struct GroupRows
{
	Hint *rows;
	int n;
	Key next;	/* key of the first row that was not read; +infinity: there are no more rows */
	int64 head; /* fifo: job_id of the head; PG_INT64_MAX: there is no head, or no fifo */
};

/*
 * Move rows without a lease to the front, at most `wanted`, and return their number. Call
 * note_missed() for each row with a lease. If rows are left that were not looked at, set rows->next to
 * the key of the first one. Called under the queue's lock.
 */
int pick_free_rows(QueueHold &hold, GroupRows *rows, int wanted);

/* Find the head of a group among jobs with ids from `floor` on. Return false if segments are missing. */
bool read_head_of(SegmentSet &segments, const QueueRef &ref, int64 group, int64 floor,
				  GroupRows *rows);

} // namespace pgq
