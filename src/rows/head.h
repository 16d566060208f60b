/*
 * The head of a group in a queue with fifo: the live job with the smallest id, which alone may go out.
 *
 * Asked with a snapshot of this moment: what had been committed when it was taken counts, whoever is changing or moving
 * the row since, and what is being inserted does not; its transaction files it when it commits. A job whose time is over
 * (expires_in) is nobody's way. The snapshot is only compared with, so nothing is registered for serializable transactions.
 */
#pragma once

#include "rows/job.h"
#include "rows/segment_set.h"

namespace pgq {

/* The jobs with ids in [from, before) are looked at. False: there is none among them. */
bool find_head(SegmentSet &segments, int32 queue_id, int64 group, int64 from, int64 before,
			   Hint *head);

} // namespace pgq
