/*
 * Changes of job rows. Each function finds the row version to change, at the given place or
 * elsewhere, and keeps its page pinned until the change is made.
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
	/*
	 * Without wait: another transaction has locked or is writing the row. From delete_judged() and
	 * rewrite_job() also: the row version at the given place was replaced.
	 */
	kBusy,
};

/*
 * Delete the job's row. With wait, waits in the lock manager for other transactions that have
 * locked the row. If the result is kDone, *row (unless NULL) is the deleted version, and *was
 * (unless NULL) has its scheduling columns.
 */
WriteResult delete_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
					   JobRow *row, SchedulingColumns *was);

/*
 * Like delete_job(), but delete only the row version at the given place, which the caller has
 * already checked. Returns kBusy, even after a wait, if that version was replaced.
 */
WriteResult delete_judged(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
						  JobRow *row, SchedulingColumns *was);

/*
 * Read the version of the job's row that a write would change. *row is filled if the result is
 * kDone.
 */
WriteResult locate_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
					   JobRow *row);

/*
 * Lock the job's row FOR UPDATE until the transaction ends, without waiting. If the result is kDone,
 * *row is the locked version.
 */
WriteResult lock_job_now(SegmentSet &segments, const Place &place, int64 job_id, JobRow *row);

/* Lock the job's row FOR SHARE until the transaction ends. Does not wait. */
WriteResult share_lock_job(SegmentSet &segments, const Place &place, int64 job_id);

/*
 * Lock the job's row FOR UPDATE until the transaction ends, so that no other transaction changes or
 * deletes the row. Waits for other transactions that have locked the row, and locks the row version
 * that exists after they have ended.
 */
WriteResult lock_job(SegmentSet &segments, const Place &place, int64 job_id);

/* Like lock_job(), but FOR NO KEY UPDATE, which does not wait for locks FOR KEY SHARE. */
WriteResult lock_job_to_change(SegmentSet &segments, const Place &place, int64 job_id);

/* Like lock_job_now(), but FOR NO KEY UPDATE. */
WriteResult lock_job_to_change_now(SegmentSet &segments, const Place &place, int64 job_id,
								   JobRow *row);

/*
 * Lock the job's row FOR KEY SHARE until the transaction ends, so that no other transaction deletes
 * the row. Waits for other transactions that are deleting the row.
 */
WriteResult keep_job(SegmentSet &segments, const Place &place, int64 job_id);

/* Like keep_job(), but without waiting. */
WriteResult keep_job_now(SegmentSet &segments, const Place &place, int64 job_id);

/* The changes to a row when an attempt ends and the job is to be tried again. */
struct Retry
{
	int32 attempts;
	TimestampTz run_at;
	/*
	 * token of the lease that ends; negated if the lease was lost and its worker has not reported a
	 * failure
	 */
	int64 fence;
	bool keeps_error; /* keep the present last_error */
	bool has_error;
	Datum error;
};

/*
 * Like delete_judged(), but instead of deleting the row version at the given place, rewrite it for
 * the next attempt. Returns kBusy, even after a wait, if that version was replaced. If the result
 * is kDone, *hint is the hint of the new version, and *was (unless NULL) has the scheduling columns
 * of the old version.
 */
WriteResult rewrite_job(SegmentSet &segments, const Place &place, int64 job_id, const Retry &retry,
						bool wait, Hint *hint, SchedulingColumns *was);

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

/*
 * Change the job's row. *hint and *was are set as in rewrite_job(). Waits for other transactions
 * that have locked the row.
 */
WriteResult change_job(SegmentSet &segments, const Place &place, int64 job_id,
					   const JobChange &change, Hint *hint, SchedulingColumns *was);

/*
 * Move the row to another segment, changing only its column `segment`. *hint: the hint of the row
 * at its new place. Returns false, and leaves the row, if another transaction has locked or changed
 * the row. The caller must have the job's lease. Never waits for locks of other transactions.
 * Raises an error if segment `to` already has a job of that id.
 */
bool move_job(SegmentSet &segments, const Place &place, int64 job_id, const Segment &to,
			  Hint *hint);

} // namespace pgq
