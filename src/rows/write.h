/*
 * Changes of job rows. Each finds the version that is to be changed, at the place given or
 * elsewhere, and keeps its page pinned until the write has returned.
 */
#pragma once

#include "rows/job.h"
#include "rows/segment_set.h"

#include <algorithm>

namespace pgq {

enum class WriteResult : uint8
{
	kDone,
	kGone, /* the job has no live row any more */
	kBusy, /* without wait: somebody is at the row; of a judged version: it is not the last one any more */
};

/*
 * Delete the job; if wait, wait for whoever is at the row, in the lock manager.
 * DONE fills row (unless NULL) with the version that was deleted, and *was with what it counted as.
 */
WriteResult delete_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
					   JobRow *row, Standing *was);

/* The same of the version that the caller has judged. BUSY, also after a wait: others have made another one of it. */
WriteResult delete_judged(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
						  JobRow *row, Standing *was);

/* Read the version of the job that a write would change. DONE fills row. */
WriteResult locate_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
					   JobRow *row);

/* Lock the job's row FOR SHARE, to the end of the transaction. Does not wait. */
WriteResult share_lock_job(SegmentSet &segments, const Place &place, int64 job_id);

/*
 * Lock the job's row FOR UPDATE, to the end of the transaction: as it is then, nobody else changes or deletes it. Waits
 * for who is at it, and locks what he has made of it.
 */
WriteResult lock_job(SegmentSet &segments, const Place &place, int64 job_id);

/* The same FOR NO KEY UPDATE: does not wait for those that have locked it FOR KEY SHARE. */
WriteResult lock_job_to_change(SegmentSet &segments, const Place &place, int64 job_id);

/* Lock the job's row FOR KEY SHARE, to the end of the transaction: it is not deleted meanwhile. Waits for who is at it. */
WriteResult keep_job(SegmentSet &segments, const Place &place, int64 job_id);

/* The same without waiting. */
WriteResult keep_job_now(SegmentSet &segments, const Place &place, int64 job_id);

/* What the end of an attempt changes in the row. */
struct Retry
{
	int32 attempts;
	TimestampTz run_at;
	int64 fence;	  /* token of the lease that ends; negative: it was lost */
	bool keeps_error; /* the last error stays */
	bool has_error;
	Datum error;
};

/*
 * Rewrite the job for its next attempt, if that is the version that the caller has judged, as delete_judged(). DONE fills hint
 * with its new version, and *was with what that before counted as.
 */
WriteResult rewrite_job(SegmentSet &segments, const Place &place, int64 job_id, const Retry &retry,
						bool wait, Hint *hint, Standing *was);

/* New values of some columns. */
struct JobChange
{
	Datum values[kJobColumns];
	bool nulls[kJobColumns];
	bool changed[kJobColumns];

	void set(JobColumn column, Datum value)
	{
		values[column - 1] = value;
		nulls[column - 1] = false;
		changed[column - 1] = true;
	}
	void set_null(JobColumn column)
	{
		nulls[column - 1] = true;
		changed[column - 1] = true;
	}
	bool any() const
	{
		return std::find(changed, changed + kJobColumns, true) != changed + kJobColumns;
	}
};

/* Change the job's row; waits for who is at it. DONE as rewrite_job(), but was can be NULL. */
WriteResult change_job(SegmentSet &segments, const Place &place, int64 job_id,
					   const JobChange &change, Hint *hint, Standing *was);

/*
 * Move the row to another segment: nothing but its segment changes, and *hint, which then says
 * where it is. False: somebody is or has been at it, and it stays. The caller has the job's lease. Never
 * waits for a lock of somebody else; raises if the other segment has a job of that id.
 */
bool move_job(SegmentSet &segments, const Place &place, int64 job_id, const Segment &to,
			  Hint *hint);

} // namespace pgq
