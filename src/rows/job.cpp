#include "rows/job.h"

#include "rows/index.h"

namespace pgq {

/* ---- segments ---- */

Relation
SegmentSet::open_one(const Segment &segment)
{
	Relation &relation = relation_[segment.number];
	if (relation == nullptr)
	{
		relation = table_open(segment.heap, mode_);
		open_ |= 1U << segment.number;
	}
	return relation;
}

Relation
SegmentSet::open(int number)
{
	if (number >= kMaxSegments)
		return nullptr;
	if (relation_[number] == nullptr)
		open_in_order(1U << number);
	return relation_[number];
}

/*
 * A lock may bring news, of an index for example, and to learn them tables() locks every
 * segment for a moment: so a reader does that with nothing locked, and begins again.
 */
void
SegmentSet::open_in_order(uint32 numbers)
{
	static constexpr int kTries = 10;
	uint32 missing = numbers & ~open_;
	if (missing == 0)
		return;
	bool reader = mode_ == AccessShareLock;
	if (reader && open_ > (missing & -missing))
	{
		numbers |= open_;
		close();
	}
	for (int i = 0; i < kTries; i++)
	{
		const JobSegments list = job_segments();
		for (const Segment &segment : list)
			if (numbers & (1U << segment.number))
				open_one(segment);
		if (list.n == 0 || !tables_may_differ())
			return;
		if (reader && i < kTries - 1)
		{
			numbers |= open_;
			close();
		}
	}
}

JobSegments
SegmentSet::open_all()
{
	open_in_order(kEverySegment);
	return job_segments();
}

bool
SegmentSet::is_bare(int number)
{
	Relation rel = open(number);
	return rel != nullptr && RelationGetNumberOfBlocks(rel) == 0;
}

void
SegmentSet::unpin()
{
	if (BufferIsValid(kept_))
		ReleaseBuffer(kept_);
	kept_ = InvalidBuffer;
}

Buffer
SegmentSet::pin(const Place &place)
{
	Relation rel = open(place.segment);
	/* Opening it may have brought the news that indexes are missing. */
	if (rel == nullptr || segment_by_number(place.segment) == nullptr)
		return InvalidBuffer;
	BlockNumber &blocks = blocks_[place.segment];
	if (place.block >= blocks)
		blocks = RelationGetNumberOfBlocks(rel);
	if (place.block >= blocks)
		return InvalidBuffer;
	if (!BufferIsValid(kept_) || kept_of_ != rel || BufferGetBlockNumber(kept_) != place.block)
	{
		unpin();
		kept_ = ReadBuffer(rel, place.block);
		kept_of_ = rel;
	}
	IncrBufferRefCount(kept_);
	return kept_;
}

void
SegmentSet::close()
{
	unpin();
	for (Relation &relation : relation_)
	{
		if (relation != nullptr)
			table_close(relation, mode_ == AccessShareLock ? mode_ : NoLock);
		relation = nullptr;
	}
	open_ = 0;
	/* The next lock finds the segments anew. */
	memset(blocks_, 0, sizeof(blocks_));
}

/* ---- reading ---- */

Hint
hint_of(HeapTuple tuple, TupleDesc desc, uint16 segment)
{
	bool is_null;
	auto get = [&](JobColumn column) { return heap_getattr(tuple, column, desc, &is_null); };
	Hint hint;
	hint.key = {DatumGetInt32(get(kJobPriority)), DatumGetTimestampTz(get(kJobRunAt)),
				DatumGetInt64(get(kJobId))};
	hint.place = {ItemPointerGetBlockNumber(&tuple->t_self),
				  ItemPointerGetOffsetNumber(&tuple->t_self), segment};
	hint.delayed = is_delayed(hint.key.run_at, DatumGetTimestampTz(get(kJobEnqueuedAt)),
							  DatumGetInt32(get(kJobAttempts)));
	return hint;
}

/* Does a transaction that is still running hold a lock on this live version? */
static bool
has_running_locker(HeapTupleHeader header)
{
	if ((header->t_infomask & HEAP_XMAX_INVALID) || !HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask))
		return false;
	TransactionId xmax = HeapTupleHeaderGetRawXmax(header);
	if (header->t_infomask & HEAP_XMAX_IS_MULTI)
		return !HEAP_LOCKED_UPGRADED(header->t_infomask) && MultiXactIdIsRunning(xmax, true);
	return TransactionIdIsInProgress(xmax);
}

Verdict
judge_version(HeapTuple tuple, Buffer buffer)
{
	TransactionId dead_after;
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
			return has_running_locker(tuple->t_data) ? Verdict::kBusy : Verdict::kLive;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			return Verdict::kBusy;
		case HEAPTUPLE_DEAD:
		case HEAPTUPLE_RECENTLY_DEAD:
			break;
	}
	return Verdict::kDead;
}

/* Pin and share-lock the version at that place, if there is one of this job. */
static bool
lock_version(SegmentSet &segments, const Place &place, int64 job_id, Buffer *buffer,
			 HeapTupleData *tuple)
{
	*buffer = segments.pin(place);
	if (!BufferIsValid(*buffer))
		return false;
	Relation rel = segments.open(place.segment);
	LockBuffer(*buffer, BUFFER_LOCK_SHARE);
	Page page = BufferGetPage(*buffer);
	if (place.offset >= FirstOffsetNumber && place.offset <= PageGetMaxOffsetNumber(page))
	{
		ItemId item = PageGetItemId(page, place.offset);
		if (ItemIdIsNormal(item))
		{
			tuple->t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
			tuple->t_len = ItemIdGetLength(item);
			tuple->t_tableOid = RelationGetRelid(rel);
			ItemPointerSet(&tuple->t_self, place.block, place.offset);
			bool is_null;
			Datum id = heap_getattr(tuple, kJobId, RelationGetDescr(rel), &is_null);
			if (!is_null && DatumGetInt64(id) == job_id)
				return true;
		}
	}
	UnlockReleaseBuffer(*buffer);
	return false;
}

static void
fill_row(JobRow *row, Relation rel, HeapTuple tuple, int segment)
{
	row->tuple = heap_copytuple(tuple);
	row->place = {ItemPointerGetBlockNumber(&tuple->t_self),
				  ItemPointerGetOffsetNumber(&tuple->t_self), static_cast<uint16>(segment)};
	/* Columns that were dropped behind ours do not matter; check_columns() has looked at the others. */
	Datum values[MaxHeapAttributeNumber];
	bool nulls[MaxHeapAttributeNumber];
	heap_deform_tuple(row->tuple, RelationGetDescr(rel), values, nulls);
	memcpy(row->values, values, sizeof(row->values));
	memcpy(row->nulls, nulls, sizeof(row->nulls));
}

/* Stands for a dead version whose row went on, by an UPDATE or to another segment; 0 if it did not. */
static uint64
trace_of(HeapTuple tuple)
{
	if (ItemPointerEquals(&tuple->t_data->t_ctid, &tuple->t_self))
		return 0;
	return HeapTupleHeaderGetUpdateXid(tuple->t_data);
}

/* moved: the sum of such traces that were seen. */
static Verdict
look_up_once(SegmentSet &segments, const JobSegments &list, int64 job_id, JobRow *row,
			 uint64 *moved)
{
	Verdict verdict = Verdict::kDead;
	*moved = 0;
	for (int i = 0; i < list.n && verdict == Verdict::kDead; i++)
	{
		const Segment &segment = list.segment[i];
		if (segments.is_bare(segment.number))
			continue;
		Relation rel = segments.open(segment.number);
		IndexLookup *lookup = begin_index_lookup(rel, segment.by_id, job_id);
		while (verdict == Verdict::kDead && next_version(lookup))
		{
			verdict = judge_version(lookup->tuple, lookup->buffer);
			if (verdict == Verdict::kLive)
				fill_row(row, rel, lookup->tuple, segment.number);
			else if (verdict == Verdict::kDead)
				*moved += trace_of(lookup->tuple);
			unlock_version(lookup);
		}
		end_index_lookup(lookup);
	}
	return verdict;
}

/*
 * Look for the job in all segments by its id. A version that somebody has just
 * moved can be missed, behind the scan: then the version it was moved from has
 * been seen, and the second scan finds the new one. If it was moved again
 * meanwhile, somebody is at it.
 */
static Verdict
look_up(SegmentSet &segments, int64 job_id, JobRow *row)
{
	const JobSegments list = segments.open_all();
	/* Not a list of segments yet: see segments_known(). */
	if (list.n == 0)
		return Verdict::kBusy;
	uint64 moved;
	Verdict verdict = look_up_once(segments, list, job_id, row, &moved);
	if (verdict != Verdict::kDead || moved == 0)
		return verdict;
	uint64 moved_by_now;
	verdict = look_up_once(segments, list, job_id, row, &moved_by_now);
	return verdict == Verdict::kDead && moved_by_now != moved ? Verdict::kBusy : verdict;
}

Verdict
verify_job(SegmentSet &segments, const Place &place, int64 job_id, JobRow *row)
{
	Verdict verdict = Verdict::kDead;
	Buffer buffer;
	HeapTupleData tuple;
	if (lock_version(segments, place, job_id, &buffer, &tuple))
	{
		verdict = judge_version(&tuple, buffer);
		if (verdict == Verdict::kLive)
			fill_row(row, segments.open(place.segment), &tuple, place.segment);
		UnlockReleaseBuffer(buffer);
	}
	return verdict == Verdict::kDead ? look_up(segments, job_id, row) : verdict;
}

/* ---- writing ---- */

/* The server wants the tuples in slots, whose descriptor nobody counts. */
void
insert_many_tuples(Relation rel, HeapTuple *tuples, int n)
{
	TupleDesc desc = CreateTupleDescCopy(RelationGetDescr(rel));
	auto **slots = static_cast<TupleTableSlot **>(palloc(n * sizeof(TupleTableSlot *)));
	for (int i = 0; i < n; i++)
	{
		slots[i] = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
		ExecStoreHeapTuple(tuples[i], slots[i], false);
	}
	heap_multi_insert(rel, slots, n, GetCurrentCommandId(true), 0, nullptr);
	for (int i = 0; i < n; i++)
	{
		tuples[i]->t_self = slots[i]->tts_tid;
		ExecDropSingleTupleTableSlot(slots[i]);
	}
}

void
insert_jobs(NewJob *jobs, int n, Hint *hints)
{
	const Tables &t = tables();
	const Segment &segment = current_segment();
	Relation rel = table_open(segment.heap, RowExclusiveLock);
	TupleFormer former(rel);
	auto *tuples = static_cast<HeapTuple *>(palloc(n * sizeof(HeapTuple)));
	for (int i = 0; i < n; i++)
	{
		jobs[i].set(kJobId, Int64GetDatum(nextval_internal(t.job_id_seq, false)));
		jobs[i].set(kJobSegment, Int16GetDatum(segment.number));
		tuples[i] = former.form(jobs[i].values, jobs[i].nulls, kJobColumns);
	}
	if (n == 1)
		heap_insert(rel, tuples[0], GetCurrentCommandId(true), 0, nullptr);
	else
		insert_many_tuples(rel, tuples, n);
	insert_job_index_entries(rel, segment.number, tuples, n, true);
	for (int i = 0; i < n; i++)
		hints[i] = hint_of(tuples[i], RelationGetDescr(rel), static_cast<uint16>(segment.number));
	table_close(rel, NoLock);
}

/*
 * Which version would a write change? One whose insertion is committed, or is our
 * own, and which we have not replaced ourselves; who else is at it, the write
 * itself will wait for. *inserter: who inserts a version we cannot write yet.
 */
static bool
is_writable(HeapTuple tuple, Buffer buffer, TransactionId *inserter)
{
	TransactionId dead_after;
	TransactionId xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
			return true;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			return !TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(tuple->t_data));
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			if (TransactionIdIsCurrentTransactionId(xmin))
				return true;
			*inserter = xmin;
			return false;
		default:
			return false;
	}
}

/* Pinned for a write: while the pin is held the page cannot be pruned, so the line pointer stays (A1). */
struct PinnedVersion
{
	Relation rel;
	Buffer buffer;
	ItemPointerData tid;
	bool ours; /* written by this transaction, perhaps by the command that runs */
};

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
	if (row != nullptr)
		fill_row(row, version->rel, &tuple, place.segment);
	LockBuffer(version->buffer, BUFFER_LOCK_UNLOCK);
	return true;
}

static bool
find_writable_once(SegmentSet &segments, const JobSegments &list, int64 job_id, Place *place,
				   TransactionId *inserter, uint64 *moved)
{
	bool found = false;
	*moved = 0;
	for (int i = 0; i < list.n && !found; i++)
	{
		const Segment &segment = list.segment[i];
		if (segments.is_bare(segment.number))
			continue;
		Relation rel = segments.open(segment.number);
		IndexLookup *lookup = begin_index_lookup(rel, segment.by_id, job_id);
		while (!found && next_version(lookup))
		{
			ItemPointer tid = &lookup->tuple->t_self;
			found = is_writable(lookup->tuple, lookup->buffer, inserter);
			if (judge_version(lookup->tuple, lookup->buffer) == Verdict::kDead)
				*moved += trace_of(lookup->tuple);
			*place = {ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid),
					  static_cast<uint16>(segment.number)};
			unlock_version(lookup);
		}
		end_index_lookup(lookup);
	}
	return found;
}

/* As look_up(): what was moved on behind the scan is found by another one. */
static bool
find_writable(SegmentSet &segments, int64 job_id, Place *place, TransactionId *inserter)
{
	const JobSegments list = segments.open_all();
	for (uint64 before = 0;;)
	{
		uint64 moved;
		if (find_writable_once(segments, list, job_id, place, inserter, &moved))
			return true;
		if (TransactionIdIsValid(*inserter) || moved == before)
			return false;
		before = moved;
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Find the job's version, here or elsewhere, and let write() have it pinned. A
 * version that somebody replaced under us is looked for again by the job's id.
 */
template <typename Write>
static WriteResult
write_job(SegmentSet &segments, Place place, int64 job_id, bool wait, JobRow *row, Write write)
{
	for (;;)
	{
		require_complete_segments();
		PinnedVersion version;
		TransactionId inserter = InvalidTransactionId;
		bool pinned = pin_at(segments, place, job_id, &version, row, &inserter);
		bool found = pinned || find_writable(segments, job_id, &place, &inserter);
		if (found && !pinned)
			pinned = pin_at(segments, place, job_id, &version, row, &inserter);
		if (!pinned)
		{
			CHECK_FOR_INTERRUPTS();
			/* Found, and moved on before it could be pinned: look again. */
			if (found && !TransactionIdIsValid(inserter))
				continue;
			if (!TransactionIdIsValid(inserter))
				return WriteResult::kGone;
			if (!wait)
				return WriteResult::kBusy;
			segments.unpin();
			XactLockTableWait(inserter, nullptr, nullptr, XLTW_None);
			continue;
		}
		/* As in WITH u AS (UPDATE ...) SELECT pgq_ack(...) FROM u: what a command has written only a later one can change. */
		if (version.ours)
			CommandCounterIncrement();
		TM_Result result = write(version.rel, &version.tid);
		ReleaseBuffer(version.buffer);
		switch (result)
		{
			case TM_Ok:
				return WriteResult::kDone;
			case TM_BeingModified:
			case TM_WouldBlock:
				return WriteResult::kBusy;
			case TM_Invisible:
			case TM_SelfModified:
			case TM_Updated:
			case TM_Deleted:
				break;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

WriteResult
locate_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait, JobRow *row)
{
	return write_job(segments, place, job_id, wait, row,
					 [](Relation, ItemPointer) { return TM_Ok; });
}

WriteResult
delete_job(SegmentSet &segments, const Place &place, int64 job_id, bool wait, JobRow *row)
{
	return write_job(segments, place, job_id, wait, row, [&](Relation rel, ItemPointer tid) {
		TM_FailureData failure;
		return heap_delete(rel, tid, GetCurrentCommandId(true), InvalidSnapshot, wait, &failure,
						   false);
	});
}

static TM_Result
lock_without_waiting(Relation rel, ItemPointer tid, LockTupleMode mode)
{
	HeapTupleData tuple;
	tuple.t_self = *tid;
	Buffer buffer;
	TM_FailureData failure;
	TM_Result result = heap_lock_tuple(rel, &tuple, GetCurrentCommandId(true), mode, LockWaitSkip,
									   false, &buffer, &failure);
	ReleaseBuffer(buffer);
	return result;
}

WriteResult
share_lock_job(SegmentSet &segments, const Place &place, int64 job_id)
{
	return write_job(segments, place, job_id, false, nullptr, [](Relation rel, ItemPointer tid) {
		return lock_without_waiting(rel, tid, LockTupleShare);
	});
}

WriteResult
rewrite_job(SegmentSet &segments, const Place &place, int64 job_id, const Retry &retry, bool wait,
			Hint *hint)
{
	Datum values[MaxHeapAttributeNumber] = {};
	bool nulls[MaxHeapAttributeNumber] = {};
	bool changed[MaxHeapAttributeNumber] = {};
	auto set = [&](JobColumn column, Datum value, bool is_null) {
		values[column - 1] = value;
		nulls[column - 1] = is_null;
		changed[column - 1] = true;
	};
	set(kJobAttempts, Int32GetDatum(retry.attempts), false);
	set(kJobRunAt, TimestampTzGetDatum(retry.run_at), false);
	set(kJobFence, Int64GetDatum(retry.fence), false);
	set(kJobLastError, retry.error, !retry.has_error);

	JobRow row;
	return write_job(segments, place, job_id, wait, &row, [&](Relation rel, ItemPointer tid) {
		/* heap_update always waits for whoever is at the row; with its lock in hand there is nobody. */
		TM_Result result = wait ? TM_Ok : lock_without_waiting(rel, tid, LockTupleExclusive);
		if (result != TM_Ok)
			return result;
		/* SQL may have raised it meanwhile. */
		if (!row.is_null(kJobFence))
			set(kJobFence, Int64GetDatum(Max(retry.fence, DatumGetInt64(row.value(kJobFence)))),
				false);
		HeapTuple next =
			heap_modify_tuple(row.tuple, RelationGetDescr(rel), values, nulls, changed);
		TM_FailureData failure;
		LockTupleMode lock_mode;
		result = heap_update(rel, tid, next, GetCurrentCommandId(true), InvalidSnapshot, true,
							 &failure, &lock_mode);
		if (result != TM_Ok)
			return result;
		if (!HeapTupleIsHeapOnly(next))
			insert_job_index_entries(rel, row.place.segment, &next, 1, true);
		hint->key = {row.key().priority, retry.run_at, job_id};
		hint->place = {ItemPointerGetBlockNumber(&next->t_self),
					   ItemPointerGetOffsetNumber(&next->t_self), row.place.segment};
		hint->delayed = is_delayed(retry.run_at, DatumGetTimestampTz(row.value(kJobEnqueuedAt)),
								   retry.attempts);
		return result;
	});
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
	/* As an UPDATE between partitions does: who waits for the old version learns that it went elsewhere. */
	TM_FailureData failure;
	TM_Result result = heap_delete(version.rel, &version.tid, GetCurrentCommandId(true),
								   InvalidSnapshot, false, &failure, true);
	ReleaseBuffer(version.buffer);
	if (result != TM_Ok)
		return false;
	*hint = insert_copy(segments.open(to.number), to.number, &row);
	return true;
}

} // namespace pgq
