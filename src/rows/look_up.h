/*
 * From a place in memory, which is only ever a guess, to the job's row: lock the segment, check the
 * block against the relation's size, check the line pointer and the job's id under the buffer's
 * lock. What is not there is looked for by the job's id, in all segments.
 */
#pragma once

#include "rows/job.h"
#include "rows/judge.h"
#include "rows/segment_set.h"

namespace pgq {

/*
 * Verify the job at that place; elsewhere if it is not there. LIVE fills row,
 * whose place may differ from the one given. Works in every isolation level and
 * takes no snapshot.
 */
Verdict verify_job(SegmentSet &segments, const Place &place, int64 job_id, JobRow *row);

/* Pin and share-lock the version at that place, if there is one of this job. */
bool lock_version(SegmentSet &segments, const Place &place, int64 job_id, Buffer *buffer,
				  HeapTupleData *tuple);

/* The place of the version that a write would change. False: there is none; *inserter, if valid, is at one. */
bool find_writable(SegmentSet &segments, int64 job_id, Place *place, TransactionId *inserter);

/* The queue of a version of the job that is not dead, whoever is at it. Waits for nobody. False: none was seen. */
bool queue_of_job(SegmentSet &segments, int64 job_id, int32 *queue_id);

/* The transactions (a list of xids) that have deleted or changed the job, of which dead versions tell; and its queue then. */
List *deleters_of(SegmentSet &segments, int64 job_id, int32 *queue_id);

/* Does that snapshot see a version of the job, whichever? */
bool is_visible(SegmentSet &segments, int64 job_id, Snapshot snapshot);

} // namespace pgq
