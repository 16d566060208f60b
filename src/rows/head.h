/*
 * The search for the head of a group in a queue with fifo. The search takes a new snapshot. A row
 * that was committed before the snapshot counts, even if an open transaction is changing or moving
 * the row. A row that an open transaction is inserting does not count; that transaction files the
 * row when it commits. A job that has expired (expires_in) blocks no other job. The snapshot is
 * only used to test visibility, so nothing is registered for serializable transactions.
 */
#pragma once

#include "rows/job.h"
#include "rows/segment_set.h"

namespace pgq {

/*
 * Find the head of the group among jobs with ids in [from, before). Returns false if there is no
 * such job.
 */
bool find_head(SegmentSet &segments, int32 queue_id, int64 group, int64 from, int64 before,
			   Hint *head);

/*
 * Find the first row of the group, also if its job has expired. Returns false if the group has no
 * row.
 */
bool find_first_row(SegmentSet &segments, int32 queue_id, int64 group, Hint *first);

} // namespace pgq
