/* The rows of the members of a batch. */
#pragma once

#include "rows/segment_set.h"

namespace pgq {

/*
 * Find a member of the batch in the table job that lives, or that an open or prepared transaction is
 * inserting or deleting. Takes no snapshot. Returns the greatest id of such a member, or 0. A row that
 * moves to another segment can be missed: see the README of batches/, "How a batch finishes".
 */
int64 find_live_member(SegmentSet &segments, int64 batch_id);

/* Return whether a version of this job is live, or is being inserted or deleted. */
bool is_live_member(SegmentSet &segments, int64 batch_id, int64 job_id);

} // namespace pgq
