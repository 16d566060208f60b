/*
 * Finding the row of a job. The place that memory has for the row may be outdated. So a look-up
 * locks the segment of that place, compares the block number with the size of the segment, and
 * checks the line pointer and the job's id under the lock of the buffer. If there is no row of the
 * job at the place, the look-up searches all segments by the job's id.
 */
#pragma once

#include "rows/job.h"
#include "rows/segment_set.h"
#include "rows/visibility.h"

namespace pgq {

/*
 * Find the row of the job, at the given place or elsewhere, and check its visibility. If the result
 * is kLive, *row is filled; row->place may differ from the given place. Takes no snapshot, so the
 * isolation level does not matter.
 */
Visibility verify_job(SegmentSet &segments, const Place &place, int64 job_id, JobRow *row);

/*
 * Pin and share-lock the row version at the given place. Returns false if the place has no version
 * of this job.
 */
bool lock_version(SegmentSet &segments, const Place &place, int64 job_id, Buffer *buffer,
				  HeapTupleData *tuple);

/*
 * Set *place to the place of the version of the job that a write would change. Returns false if
 * there is no such version; *inserter is then another transaction that is inserting the job, or
 * unchanged.
 */
bool find_writable(SegmentSet &segments, int64 job_id, Place *place, TransactionId *inserter);

/*
 * Set *queue_id to the queue of a live or busy version of the job. Does not wait. Returns false if
 * there is no such version.
 */
bool queue_of_job(SegmentSet &segments, int64 job_id, int32 *queue_id);

/*
 * Return the xids of transactions that have deleted or replaced the job, as far as dead versions
 * still show them. *queue_id: the queue of the job in those versions.
 */
List *deleters_of(SegmentSet &segments, int64 job_id, int32 *queue_id);

/*
 * Return the batch of the job; 0: none, or there is no version of the job. Changes by other
 * transactions do not matter, since all versions of a job have the same batch.
 */
int64 batch_of_job(SegmentSet &segments, const Place &place, int64 job_id);

/* The newest state of the rows of a job. */
struct JobTrace
{
	enum State : uint8
	{
		kNone,
		kThere,	   /* there is a version that is live, or that this transaction has written */
		kOpen,	   /* the transaction `decider` is inserting, replacing or deleting a version */
		kOursGone, /* this transaction has deleted the row */
	} state;
	int32 queue_id;
	TransactionId decider;
};

/* Add what this version says to *trace. column: the number of the column queue_id. */
void add_to_trace(HeapTuple tuple, Buffer buffer, TupleDesc desc, int column, JobTrace *trace);

/* Look at all versions of the row in pgq_ext.job. Does not wait. */
JobTrace trace_job(SegmentSet &segments, int64 job_id);

/* Return whether the snapshot sees any version of the job. */
bool is_visible(SegmentSet &segments, int64 job_id, Snapshot snapshot);

} // namespace pgq
