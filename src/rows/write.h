/*
 * Changes of job rows. Each function finds the version to change, at the given place or elsewhere,
 * and keeps its page pinned until the write has returned.
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
 * Delete the job. With wait, wait for other transactions at the row, by the lock manager. DONE
 * fills *row (unless NULL) with the deleted version, and *was (unless NULL) with its scheduling
 * columns.
 */
WriteResult delete_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
					   JobRow *row, Standing *was);

/* The same of the version that the caller has judged. BUSY, also after a wait: others have made another one of it. */
WriteResult delete_judged(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
						  JobRow *row, Standing *was);

/* Read the version of the job that a write would change. DONE fills *row. */
WriteResult locate_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
					   JobRow *row);

/* Lock the job's row FOR SHARE until the transaction ends. Does not wait. */
WriteResult share_lock_job(SegmentSet &segments, const Place &place, int64 job_id);

/*
 * Lock the job's row FOR UPDATE until the transaction ends: no other transaction changes or deletes
 * it. Waits for other transactions at the row, and locks the version that these leave.
 */
WriteResult lock_job(SegmentSet &segments, const Place &place, int64 job_id);

/* As lock_job(), FOR NO KEY UPDATE: does not wait for locks FOR KEY SHARE. */
WriteResult lock_job_to_change(SegmentSet &segments, const Place &place, int64 job_id);

/*
 * Lock the job's row FOR KEY SHARE until the transaction ends: no other transaction deletes it.
 * Waits for other transactions at the row.
 */
WriteResult keep_job(SegmentSet &segments, const Place &place, int64 job_id);

/* As keep_job(), without waiting. */
WriteResult keep_job_now(SegmentSet &segments, const Place &place, int64 job_id);

/* The changes to a row when an attempt ends and the job is to be tried again. */
struct Retry
{
	int32 attempts;
	TimestampTz run_at;
	int64 fence;	  /* token of the lease that ends; negative if the lease was lost */
	bool keeps_error; /* keep the present last_error */
	bool has_error;
	Datum error;
};

/*
 * Rewrite the job for its next attempt, if the version to change is still the one that the caller
 * has judged (as delete_judged()). DONE fills *hint for the new version, and *was (unless NULL)
 * with the scheduling columns of the old one.
 */
WriteResult rewrite_job(SegmentSet &segments, const Place &place, int64 job_id, const Retry &retry,
						bool wait, Hint *hint, Standing *was);

/* New values of some columns of a job. */
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

/* Change the job's row, as rewrite_job(). Waits for other transactions at the row. */
WriteResult change_job(SegmentSet &segments, const Place &place, int64 job_id,
					   const JobChange &change, Hint *hint, Standing *was);

/*
 * Move the row to another segment; no other column than `segment` changes. *hint is set to the new
 * place. Returns false, and leaves the row, if another transaction is or has been at it. The caller
 * has the job's lease. Never waits for locks of other transactions; raises an error if the other
 * segment has a job of that id.
 */
bool move_job(SegmentSet &segments, const Place &place, int64 job_id, const Segment &to,
			  Hint *hint);

} // namespace pgq
