/*
 * Job rows: insert, verify, delete, rewrite, by direct heap access.
 *
 * Every read or write of a row that memory points at goes by rules A1-A3 of the
 * protocol: lock the segment, check the block against the relation's size, check
 * the line pointer and the job's id under the buffer's lock, keep the pin until
 * the write has returned.  A place in memory is only ever a guess.
 */
#pragma once

#include "catalog/ring_layout.h"
#include "catalog/tables.h"

namespace pgq {

/*
 * The segments that a verb has opened so far, all with one lock mode. Whoever locks
 * several does it in ascending order, or he can be in a circle with somebody who locks
 * them all and waits for a lower one: LOCK TABLE, TRUNCATE, VACUUM FULL of the parent. A
 * reader lets all go first where he has to; a writer keeps what he has, to the end of
 * his transaction.
 */
class SegmentSet
{
public:
	explicit SegmentSet(LOCKMODE mode) : mode_(mode) {}

	/* NULL if there is no segment of that number. */
	Relation open(int number);

	/* A set of segments, as bits. Nothing of a reader's that was open may be in use. */
	void open_in_order(uint32 numbers);

	/* All. Returns them as they are known now that they are locked. */
	JobSegments open_all();

	/* Has the segment no page? Then it needs no look. */
	bool is_bare(int number);

	/* A pin of the place's page, for the caller to release; invalid if the segment is missing or ends before it. */
	Buffer pin(const Place &place);

	/* Before a wait: do not keep a page from VACUUM meanwhile. */
	void unpin();

	/* Readers let the lock go (C3: they have detoasted by then), writers keep it to the end of the transaction. */
	void close();

private:
	Relation open_one(const Segment &segment);

	LOCKMODE mode_;
	uint32 open_ = 0;					   /* as bits */
	Relation relation_[kMaxSegments] = {}; /* by number */
	/* At least: a segment can grow, but not shrink under our lock. */
	BlockNumber blocks_[kMaxSegments] = {};
	/* The page pinned last: the next job is often there too. */
	Buffer kept_ = InvalidBuffer;
	Relation kept_of_ = nullptr;
};

/* Bits for open_in_order(). A place in memory is a guess, and may be of no segment at all. */
inline uint32
segment_bit(const Place &place)
{
	return place.segment < kMaxSegments ? 1U << place.segment : 0;
}
inline constexpr uint32 kEverySegment = (1U << kMaxSegments) - 1;

/* A row version, copied out of its page. */
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
	/* The ordinal of the next attempt: one more than have failed. Somebody may have set that to anything. */
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
	Hint hint() const { return {key(), place, delayed()}; }
	int32 max_attempts(int32 of_queue) const
	{
		return is_null(kJobMaxAttempts) ? of_queue : DatumGetInt32(value(kJobMaxAttempts));
	}
};

/* What the heap says of a job (A3). "Not visible" is not "gone". */
enum class Verdict : uint8
{
	kLive,
	kBusy, /* a transaction that has not ended is at it, our own included */
	kDead,
};

/*
 * Verify the job at that place; elsewhere if it is not there. LIVE fills row,
 * whose place may differ from the one given. Works in every isolation level and
 * takes no snapshot.
 */
Verdict verify_job(SegmentSet &segments, const Place &place, int64 job_id, JobRow *row);

/* The hint that stands for this version of a row. */
Hint hint_of(HeapTuple tuple, TupleDesc desc, uint16 segment);

/* The verdict of one version under its buffer's lock. */
Verdict judge_version(HeapTuple tuple, Buffer buffer);

/* A row to insert. Its id and segment are set when it is. */
struct NewJob
{
	Datum values[kJobColumns];
	bool nulls[kJobColumns];

	NewJob() { memset(nulls, true, sizeof(nulls)); }

	void set(JobColumn column, Datum value)
	{
		values[column - 1] = value;
		nulls[column - 1] = false;
	}
};

/*
 * Insert jobs with new ids, in their order: the rows page by page, then their index
 * entries. *hints: what stands for each.
 */
void insert_jobs(NewJob *jobs, int n, Hint *hints);

/* So many rows are worth handing to insert_jobs() at a time. */
inline constexpr int kInsertBatch = 256;

/* Fills a page at a time, with one WAL record. Makes no index entries. */
void insert_many_tuples(Relation rel, HeapTuple *tuples, int n);

enum class WriteResult : uint8
{
	kDone,
	kGone, /* the job has no live row any more */
	kBusy, /* only without wait: somebody is at the row */
};

/*
 * Delete the job; if wait, wait for whoever is at the row, in the lock manager.
 * DONE fills row (unless NULL) with the version that was deleted.
 */
WriteResult delete_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
					   JobRow *row);

/* Read the version of the job that a write would change. DONE fills row. */
WriteResult locate_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait,
					   JobRow *row);

/* Lock the job's row FOR SHARE, to the end of the transaction. Does not wait. */
WriteResult share_lock_job(SegmentSet &segments, const Place &place, int64 job_id);

/* What a failed attempt changes in the row. */
struct Retry
{
	int32 attempts;
	TimestampTz run_at;
	int64 fence; /* token of the lease that ends */
	bool has_error;
	Datum error;
};

/* Rewrite the job for its next attempt. DONE fills hint with its new version. */
WriteResult rewrite_job(SegmentSet &segments, const Place &place, int64 job_id, const Retry &retry,
						bool wait, Hint *hint);

/*
 * Move the row to another segment: nothing but its segment changes, and *hint, which then says
 * where it is. False: somebody is or has been at it, and it stays. The caller has the job's lease. Never
 * waits for a lock of somebody else; raises if the other segment has a job of that id.
 */
bool move_job(SegmentSet &segments, const Place &place, int64 job_id, const Segment &to,
			  Hint *hint);

} // namespace pgq
