/*
 * A row of pgq_ext.job.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/* A copy of a row version, outside of its page. */
struct JobRow
{
	HeapTuple tuple;
	Place place;
	Datum values[kJobColumns];
	bool nulls[kJobColumns];

	Datum value(JobColumn column) const { return values[column - 1]; }
	bool is_null(JobColumn column) const { return nulls[column - 1]; }

	int64 job_id() const { return DatumGetInt64(value(kJobId)); }
	int32 queue_id() const { return DatumGetInt32(value(kJobQueueId)); }
	/*
	 * The number of the next attempt: the number of failed attempts plus one. A user's SQL may have
	 * set `attempts` to any value.
	 */
	int32 next_attempt() const
	{
		int32 failed = DatumGetInt32(value(kJobAttempts));
		return failed < INT32_MAX ? Max(failed, 0) + 1 : failed;
	}
	Key key() const
	{
		return {DatumGetInt32(value(kJobPriority)), DatumGetTimestampTz(value(kJobRunAt)),
				job_id()};
	}
	bool delayed() const
	{
		return is_delayed(DatumGetTimestampTz(value(kJobRunAt)),
						  DatumGetTimestampTz(value(kJobEnqueuedAt)),
						  DatumGetInt32(value(kJobAttempts)));
	}
	TimestampTz expires_at() const
	{
		return is_null(kJobExpiresAt) ? DT_NOEND : DatumGetTimestampTz(value(kJobExpiresAt));
	}
	/* Return whether the job has expired (expires_in), so that no claim hands it out. */
	bool expired(TimestampTz now) const { return !is_null(kJobExpiresAt) && expires_at() <= now; }
	/*
	 * Return whether the job has expired by now. The clock is read only for a job with an
	 * expires_at, since few jobs have an expires_at.
	 */
	bool expired() const { return !is_null(kJobExpiresAt) && expired(wall_now()); }
	/* Return whether the job is blocked: a parent has not ended yet (README of dependencies/). */
	bool blocked() const { return !is_null(kJobBlocked); }
	int64 batch() const { return is_null(kJobBatch) ? 0 : DatumGetInt64(value(kJobBatch)); }
	int64 group() const { return is_null(kJobGroupId) ? 0 : DatumGetInt64(value(kJobGroupId)); }
	Hint hint() const
	{
		return {.key = key(), .place = place, .delayed = delayed(), .group = group()};
	}
	int32 max_attempts(int32 of_queue) const
	{
		return is_null(kJobMaxAttempts) ? of_queue : DatumGetInt32(value(kJobMaxAttempts));
	}
};

/*
 * The scheduling columns of a row, which decide where its job is filed and how it is counted, and
 * whose end is told to the scheduler.
 */
struct SchedulingColumns
{
	int32 queue_id;
	TimestampTz run_at;
	bool delayed;	/* the job waits for run_at, if run_at is still in the future */
	int64 batch_id; /* the batch of which the job is a member; 0: none */

	friend bool operator==(const SchedulingColumns &, const SchedulingColumns &) = default;
};

SchedulingColumns scheduling_columns_of(HeapTuple tuple, TupleDesc desc);

/*
 * Copy a version of a job's row from `rel`, which is the segment with the given number. The caller
 * holds the lock of the version's buffer.
 */
void copy_row(Relation rel, HeapTuple tuple, int segment, JobRow *row);

/*
 * Compute the value of the generated column group_id. The server does not compute generated columns
 * of rows that pgq_ext writes without the executor.
 */
Datum group_id_of(Datum group_key);

/* Like batch_in(), for a row that does not end before the column. */
int64 read_batch(HeapTuple tuple, TupleDesc desc, int column);

/*
 * Return the batch in that column of the row (kJobBatch, or kDeadBatch of a dead letter); 0: none.
 * The rows of most other jobs end before the column, so this test is cheap for them.
 */
inline int64
batch_in(HeapTuple tuple, TupleDesc desc, int column)
{
	return HeapTupleHeaderGetNatts(tuple->t_data) < column ? 0 : read_batch(tuple, desc, column);
}

/* Return the batch of the job's row; 0: none. */
inline int64
batch_of(HeapTuple tuple, TupleDesc desc)
{
	return batch_in(tuple, desc, kJobBatch);
}

/* Return whether the job is blocked: a parent has not ended yet (README of dependencies/). */
bool is_blocked(HeapTuple tuple, TupleDesc desc);

/* Return the hint to file for this row version. */
Hint hint_of(HeapTuple tuple, TupleDesc desc, uint16 segment);

inline Place
place_of(const ItemPointerData &tid, int segment)
{
	return {ItemPointerGetBlockNumber(&tid), ItemPointerGetOffsetNumber(&tid),
			static_cast<uint16>(segment)};
}

} // namespace pgq
