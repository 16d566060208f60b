/*
 * From a place in memory, which is only a guess, to the row of a job. Lock the segment, compare the
 * block number with the relation's size, and check the line pointer and the job's id under the lock
 * of the buffer. If the job is not there, look it up by its id in all segments.
 */
#pragma once

#include "rows/job.h"
#include "rows/judge.h"
#include "rows/segment_set.h"

namespace pgq {

/*
 * Check the row of the job, at that place or elsewhere. If LIVE, *row is filled; its place may
 * differ from the given one. Works in every isolation level and takes no snapshot.
 */
Verdict verify_job(SegmentSet &segments, const Place &place, int64 job_id, JobRow *row);

/*
 * Pin and share-lock the version at that place. Returns false if that place has no version of this
 * job.
 */
bool lock_version(SegmentSet &segments, const Place &place, int64 job_id, Buffer *buffer,
				  HeapTupleData *tuple);

/*
 * Find the version that a write would change. Returns false if there is none. Then *inserter, if
 * valid, is a transaction that is inserting one.
 */
bool find_writable(SegmentSet &segments, int64 job_id, Place *place, TransactionId *inserter);

/*
 * Set *queue_id to the queue of a live or busy version of the job. Does not wait. Returns false if
 * there is no such version.
 */
bool queue_of_job(SegmentSet &segments, int64 job_id, int32 *queue_id);

/*
 * Return the xids of transactions that have deleted or replaced the job, as far as dead versions
 * still show them. *queue_id: the queue that the job had then.
 */
List *deleters_of(SegmentSet &segments, int64 job_id, int32 *queue_id);

/* Return whether the snapshot sees any version of the job. */
bool is_visible(SegmentSet &segments, int64 job_id, Snapshot snapshot);

} // namespace pgq
