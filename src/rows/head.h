/*
 * The head is searched with a new snapshot. A row that was committed before counts, even if a
 * transaction is changing or moving it. A row that is being inserted does not count; its
 * transaction files it when it commits. A job that has expired (expires_in) blocks no other job.
 * The snapshot is only used to test visibility, so nothing is registered for serializable
 * transactions.
 */
#pragma once

#include "rows/job.h"
#include "rows/segment_set.h"

namespace pgq {

/*
 * Find the head of the group among jobs with ids in [from, before). Returns false if there is none.
 */
bool find_head(SegmentSet &segments, int32 queue_id, int64 group, int64 from, int64 before,
			   Hint *head);

} // namespace pgq
