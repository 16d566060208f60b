#include "rows/write.h"

#include "rows/index.h"
#include "rows/look_up.h"
#include "rows/tuple.h"
#include "rows/unique_key.h"

#include <type_traits>

namespace pgq {

namespace {
/*
 * A row version whose page is pinned for a write. A pinned page cannot be pruned, so the line
 * pointer stays valid.
 */
struct PinnedVersion
{
	Relation rel;
	Buffer buffer;
	ItemPointerData tid;
	bool ours; /* true: this transaction has written the version, possibly in the running command */
	SchedulingColumns standing;
};

} // namespace

static bool
pin_at(SegmentSet &segments, const Place &place, int64 job_id, PinnedVersion *version, JobRow *row,
	   TransactionId *inserter)
{
	HeapTupleData tuple;
	if (!lock_version(segments, place, job_id, &version->buffer, &tuple))
		return false;
	version->rel = segments.open(place.segment);
	version->tid = tuple.t_self;
	version->ours = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(tuple.t_data));
	if (!is_writable(&tuple, version->buffer, inserter))
	{
		UnlockReleaseBuffer(version->buffer);
		return false;
	}
	version->standing = scheduling_columns_of(&tuple, RelationGetDescr(version->rel));
	if (row != nullptr)
		copy_row(version->rel, &tuple, place.segment, row);
	LockBuffer(version->buffer, BUFFER_LOCK_UNLOCK);
	return true;
}

namespace {
/* Result of the search for the version that a write would change. */
enum class Search : uint8
{
	kPinned,
	kGone,
	kMovedOn,	/* found, but replaced before its page could be pinned */
	kInserting, /* being inserted by the transaction *inserter */
};

} // namespace

static Search
pin_version(SegmentSet &segments, Place *place, int64 job_id, PinnedVersion *version, JobRow *row,
			TransactionId *inserter)
{
	*inserter = InvalidTransactionId;
	if (pin_at(segments, *place, job_id, version, row, inserter))
		return Search::kPinned;
	bool found = find_writable(segments, job_id, place, inserter);
	if (found && pin_at(segments, *place, job_id, version, row, inserter))
		return Search::kPinned;
	if (TransactionIdIsValid(*inserter))
		return Search::kInserting;
	return found ? Search::kMovedOn : Search::kGone;
}

namespace {
/*
 * A `write` argument for locate_job() that changes nothing. With it, write_job() only finds the
 * version that a write would change.
 */
struct NoWrite
{
	TM_Result operator()(Relation, ItemPointer) const { return TM_Ok; }
};

} // namespace

/*
 * Find the version of the job's row to change, at that place or elsewhere, and call write() while
 * its page is pinned. If another transaction replaces the version first, look the job up again by
 * its id.
 */
template <typename Write>
static WriteResult
write_job(SegmentSet &segments, Place place, int64 job_id, bool wait, JobRow *row, Write write,
		  SchedulingColumns *was = nullptr)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		require_complete_segments();
		PinnedVersion version;
		TransactionId inserter;
		switch (pin_version(segments, &place, job_id, &version, row, &inserter))
		{
			case Search::kPinned:
				break;
			case Search::kGone:
				return WriteResult::kGone;
			case Search::kMovedOn:
				continue;
			case Search::kInserting:
				if (!wait)
					return WriteResult::kBusy;
				segments.unpin();
				XactLockTableWait(inserter, nullptr, nullptr, XLTW_None);
				continue;
		}
		/*
		 * A command cannot change rows that it has written itself, as in WITH u AS (UPDATE ...)
		 * SELECT pgq_ack(...) FROM u. So begin a new command, which can change such rows.
		 */
		if (version.ours)
			CommandCounterIncrement();
		if constexpr (!std::is_same_v<Write, NoWrite>)
			segments.note_write();
		TM_Result result = write(version.rel, &version.tid);
		ReleaseBuffer(version.buffer);
		if (was != nullptr)
			*was = version.standing;
		if (result == TM_Ok)
			return WriteResult::kDone;
		if (result == TM_BeingModified || result == TM_WouldBlock)
			return WriteResult::kBusy;
	}
}

WriteResult
locate_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait, JobRow *row)
{
	return write_job(segments, place, job_id, wait, row, NoWrite{});
}

WriteResult
delete_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait, JobRow *row,
		   SchedulingColumns *was)
{
	auto write = [&](Relation rel, ItemPointer tid) {
		TM_FailureData failure;
		return delete_row(rel, tid, wait, &failure, false);
	};
	return write_job(segments, place, job_id, wait, row, write, was);
}

WriteResult
delete_judged(SegmentSet &segments, const Place &place, int64 job_id, bool wait, JobRow *row,
			  SchedulingColumns *was)
{
	auto write = [&](Relation rel, ItemPointer tid) {
		TM_FailureData failure;
		return row->place == place ? delete_row(rel, tid, wait, &failure, false) : TM_WouldBlock;
	};
	return write_job(segments, place, job_id, wait, row, write, was);
}

/*
 * Lock a version. With FOR KEY SHARE, also lock the new version that an UPDATE in progress has
 * written, since FOR KEY SHARE does not wait for the end of the UPDATE.
 */
static TM_Result
lock_row(Relation rel, ItemPointer tid, LockTupleMode mode, LockWaitPolicy wait)
{
	bool follow_updates = mode == LockTupleKeyShare;
	HeapTupleData tuple;
	tuple.t_self = *tid;
	Buffer buffer;
	TM_FailureData failure;
	TM_Result result = heap_lock_tuple(rel, &tuple, GetCurrentCommandId(true), mode, wait,
									   follow_updates, &buffer, &failure);
	ReleaseBuffer(buffer);
	return result;
}

static TM_Result
lock_without_waiting(Relation rel, ItemPointer tid, LockTupleMode mode)
{
	return lock_row(rel, tid, mode, LockWaitSkip);
}

WriteResult
lock_job(SegmentSet &segments, const Place &place, int64 job_id)
{
	return write_job(segments, place, job_id, true, nullptr, [](Relation rel, ItemPointer tid) {
		return lock_row(rel, tid, LockTupleExclusive, LockWaitBlock);
	});
}

WriteResult
lock_job_now(SegmentSet &segments, const Place &place, int64 job_id, JobRow *row)
{
	return write_job(segments, place, job_id, false, row, [](Relation rel, ItemPointer tid) {
		return lock_without_waiting(rel, tid, LockTupleExclusive);
	});
}

WriteResult
lock_job_to_change(SegmentSet &segments, const Place &place, int64 job_id)
{
	return write_job(segments, place, job_id, true, nullptr, [](Relation rel, ItemPointer tid) {
		return lock_row(rel, tid, LockTupleNoKeyExclusive, LockWaitBlock);
	});
}

WriteResult
lock_job_to_change_now(SegmentSet &segments, const Place &place, int64 job_id, JobRow *row)
{
	return write_job(segments, place, job_id, false, row, [](Relation rel, ItemPointer tid) {
		return lock_without_waiting(rel, tid, LockTupleNoKeyExclusive);
	});
}

WriteResult
keep_job(SegmentSet &segments, const Place &place, int64 job_id)
{
	return write_job(segments, place, job_id, true, nullptr, [](Relation rel, ItemPointer tid) {
		return lock_row(rel, tid, LockTupleKeyShare, LockWaitBlock);
	});
}

WriteResult
keep_job_now(SegmentSet &segments, const Place &place, int64 job_id)
{
	return write_job(segments, place, job_id, false, nullptr, [](Relation rel, ItemPointer tid) {
		return lock_without_waiting(rel, tid, LockTupleKeyShare);
	});
}

WriteResult
share_lock_job(SegmentSet &segments, const Place &place, int64 job_id)
{
	return write_job(segments, place, job_id, false, nullptr, [](Relation rel, ItemPointer tid) {
		return lock_without_waiting(rel, tid, LockTupleShare);
	});
}

/* Form the row version for the next attempt. */
static HeapTuple
form_retry(const JobRow &row, TupleDesc desc, const Retry &retry)
{
	Datum values[MaxHeapAttributeNumber] = {};
	bool nulls[MaxHeapAttributeNumber] = {};
	bool changed[MaxHeapAttributeNumber] = {};
	auto set = [&](JobColumn column, Datum value, bool is_null) {
		values[column - 1] = value;
		nulls[column - 1] = is_null;
		changed[column - 1] = true;
	};
	/*
	 * A user's SQL may have set a fence in the row that is greater than the fence of this retry:
	 * keep the greater one.
	 */
	int64 before = row.is_null(kJobFence) ? 0 : DatumGetInt64(row.value(kJobFence));
	int64 fence = Max(before, -before) > Max(retry.fence, -retry.fence) ? before : retry.fence;
	set(kJobAttempts, Int32GetDatum(retry.attempts), false);
	set(kJobRunAt, TimestampTzGetDatum(retry.run_at), false);
	set(kJobFence, Int64GetDatum(fence), false);
	if (!retry.keeps_error)
		set(kJobLastError, retry.error, !retry.has_error);
	return heap_modify_tuple(row.tuple, desc, values, nulls, changed);
}

/*
 * Compute the generated columns. The server does not compute the generated columns of rows that are
 * written without the executor.
 */
static void
generate_columns(const JobRow &row, Datum *values, bool *nulls, bool *changed)
{
	if (changed[kJobGroupKey - 1])
	{
		nulls[kJobGroupId - 1] = nulls[kJobGroupKey - 1];
		if (!nulls[kJobGroupKey - 1])
			values[kJobGroupId - 1] = group_id_of(values[kJobGroupKey - 1]);
		changed[kJobGroupId - 1] = true;
	}
	if (changed[kJobQueueId - 1] && !row.is_null(kJobUniqueKey))
	{
		const text *key = DatumGetTextPP(row.value(kJobUniqueKey));
		int32 queue_id = DatumGetInt32(values[kJobQueueId - 1]);
		values[kJobUniqueHash - 1] = Int64GetDatum(hash_of_key(queue_id, key));
		changed[kJobUniqueHash - 1] = true;
	}
}

static HeapTuple
form_change(const JobRow &row, TupleDesc desc, const JobChange &change)
{
	Datum values[MaxHeapAttributeNumber] = {};
	bool nulls[MaxHeapAttributeNumber] = {};
	bool changed[MaxHeapAttributeNumber] = {};
	memcpy(values, change.values, sizeof(change.values));
	memcpy(nulls, change.nulls, sizeof(change.nulls));
	memcpy(changed, change.changed, sizeof(change.changed));
	generate_columns(row, values, nulls, changed);
	return heap_modify_tuple(row.tuple, desc, values, nulls, changed);
}

/*
 * Replace the version of the job's row by the new version that form() makes. With `judged`, replace
 * the version only if it is still at the given place.
 */
template <typename Form>
static WriteResult
replace_job(SegmentSet &segments, const Place &place, int64 job_id, bool judged, bool wait,
			Hint *hint, Form form, SchedulingColumns *was)
{
	JobRow row;
	auto write = [&](Relation rel, ItemPointer tid) {
		if (judged && row.place != place)
			return TM_WouldBlock;
		/*
		 * heap_update() waits for other transactions that have locked the row. So without `wait`,
		 * lock the row first: that fails at once if another transaction has locked the row.
		 */
		TM_Result result = wait ? TM_Ok : lock_without_waiting(rel, tid, LockTupleExclusive);
		if (result != TM_Ok)
			return result;
		HeapTuple next = form(row, RelationGetDescr(rel));
		OwedEntries owed;
		result = update_row(rel, tid, next, true, &owed);
		if (result != TM_Ok)
			return result;
		if (owed == OwedEntries::kAll)
			insert_job_index_entries(rel, row.place.segment, &next, 1, true);
		else if (owed == OwedEntries::kSummarizing)
			insert_summaries(rel, next);
		*hint = hint_of(next, RelationGetDescr(rel), row.place.segment);
		return result;
	};
	return write_job(segments, place, job_id, wait, &row, write, was);
}

WriteResult
rewrite_job(SegmentSet &segments, const Place &place, int64 job_id, const Retry &retry, bool wait,
			Hint *hint, SchedulingColumns *was)
{
	auto form = [&](const JobRow &row, TupleDesc desc) { return form_retry(row, desc, retry); };
	return replace_job(segments, place, job_id, true, wait, hint, form, was);
}

WriteResult
change_job(SegmentSet &segments, const Place &place, int64 job_id, const JobChange &change,
		   Hint *hint, SchedulingColumns *was)
{
	auto form = [&](const JobRow &row, TupleDesc desc) { return form_change(row, desc, change); };
	return replace_job(segments, place, job_id, false, true, hint, form, was);
}

static Hint
insert_copy(Relation rel, int segment, JobRow *row)
{
	row->values[kJobSegment - 1] = Int16GetDatum(segment);
	HeapTuple tuple = TupleFormer(rel).form(row->values, row->nulls, kJobColumns);
	heap_insert(rel, tuple, GetCurrentCommandId(true), 0, nullptr);
	insert_job_index_entries(rel, segment, &tuple, 1, false);
	return hint_of(tuple, RelationGetDescr(rel), static_cast<uint16>(segment));
}

bool
move_job(SegmentSet &segments, const Place &place, int64 job_id, const Segment &to, Hint *hint)
{
	PinnedVersion version;
	JobRow row;
	TransactionId inserter;
	if (!pin_at(segments, place, job_id, &version, &row, &inserter))
		return false;
	/*
	 * Delete the old version as an UPDATE between partitions does. A session that waits for the old
	 * version then learns that the row was moved.
	 */
	TM_FailureData failure;
	segments.note_write();
	TM_Result result = delete_row(version.rel, &version.tid, false, &failure, true);
	ReleaseBuffer(version.buffer);
	if (result != TM_Ok)
		return false;
	*hint = insert_copy(segments.open(to.number), to.number, &row);
	return true;
}

} // namespace pgq
