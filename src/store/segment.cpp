#include "store/segment.h"

#include "pg/scope.h"
#include "pg/stop_point.h"
#include "store/index.h"
#include "store/spi.h"
#include "txn/effects.h"

namespace pgq {

/* ---- sizes ---- */

/* 0 if somebody has locked it against readers. */
static int64
bytes_of(Oid relid)
{
	if (!OidIsValid(relid) || !ConditionalLockRelationOid(relid, AccessShareLock))
		return 0;
	Relation rel = relation_open(relid, NoLock);
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	relation_close(rel, AccessShareLock);
	return static_cast<int64>(blocks) * BLCKSZ;
}

static Oid
toast_of(const Segment &segment)
{
	Relation rel = table_open(segment.heap, AccessShareLock);
	Oid toast = rel->rd_rel->reltoastrelid;
	table_close(rel, AccessShareLock);
	return toast;
}

static int64
table_bytes(const Segment &segment)
{
	return bytes_of(segment.heap) + bytes_of(toast_of(segment));
}

int64
segment_bytes(const Segment &segment)
{
	return table_bytes(segment) + bytes_of(segment.by_id) + bytes_of(segment.by_order) +
		   bytes_of(segment.by_run_at);
}

bool
is_bare(const Segment &segment)
{
	return bytes_of(segment.heap) == 0;
}

bool
lock_for_writing(const Segment &segment)
{
	return ConditionalLockRelationOid(segment.heap, RowExclusiveLock) &&
		   ConditionalLockRelationOid(segment.by_id, RowExclusiveLock) &&
		   ConditionalLockRelationOid(segment.by_order, RowExclusiveLock) &&
		   ConditionalLockRelationOid(segment.by_run_at, RowExclusiveLock);
}

/* ---- reading ---- */

/* The versions of a segment's rows by job id, from one on. */
static void
start_by_id(IndexLookup *lookup, Relation rel, const Segment &segment, int64 from)
{
	ScanKeyData key;
	open_index_lookup(lookup, rel, segment.by_id, 1);
	ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from));
	index_rescan(lookup->scan, &key, 1, nullptr, 0);
}

/* What copying the version would cost, roughly. */
static int64
version_bytes(HeapTuple tuple, TupleDesc desc)
{
	int64 bytes = tuple->t_len;
	if (!HeapTupleHasExternal(tuple))
		return bytes;
	static constexpr JobColumn long_ones[] = {kJobPayload, kJobGroupKey, kJobUniqueKey, kJobHeaders,
											  kJobLastError};
	for (JobColumn column : long_ones)
	{
		bool is_null;
		Datum value = heap_getattr(tuple, column, desc, &is_null);
		if (is_null || !VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value)))
			continue;
		varatt_external pointer;
		VARATT_EXTERNAL_GET_POINTER(pointer, DatumGetPointer(value));
		bytes += VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	}
	return bytes;
}

/* What a pass or a drain has to know of a version. */
struct Version
{
	Verdict verdict;
	int32 queue_id;
	Hint hint;
	int64 bytes;
};

static bool
read_version(IndexLookup *lookup, const Segment &segment, Version *version)
{
	if (!next_version(lookup))
		return false;
	TupleDesc desc = lookup->slot->tts_tupleDescriptor;
	bool is_null;
	version->verdict = judge_version(lookup->tuple, lookup->buffer);
	version->queue_id = DatumGetInt32(heap_getattr(lookup->tuple, kJobQueueId, desc, &is_null));
	version->hint = hint_of(lookup->tuple, desc, static_cast<uint16>(segment.number));
	version->bytes = version_bytes(lookup->tuple, desc);
	unlock_version(lookup);
	CHECK_FOR_INTERRUPTS();
	return true;
}

void
read_segment(const Segment &segment, SegmentPass *pass, int most)
{
	/* Copying a twentieth of what is won costs a twentieth of the work that filled the segment. */
	static constexpr int64 kFew = 20;
	int64 room = table_bytes(segment) / kFew;
	SegmentSet segments(AccessShareLock);
	IndexLookup lookup;
	Version version;
	start_by_id(&lookup, segments.open(segment.number), segment, pass->next_id);
	pass->at_end = true;
	for (int n = 0; !pass->many && read_version(&lookup, segment, &version); n++)
	{
		int64 id = version.hint.key.job_id;
		/* Stop between jobs, not between versions of one. */
		pass->at_end = n < most || id < pass->next_id;
		if (!pass->at_end)
			break;
		pass->next_id = id + 1;
		if (version.verdict == Verdict::kDead)
			continue;
		pass->first_live = pass->first_live == 0 ? id : pass->first_live;
		pass->live_bytes += version.bytes;
		pass->many = pass->live_bytes > room;
	}
	end_index_lookup(&lookup);
	segments.close();
}

/* ---- moving ---- */

static int
collect_live(const Segment &from, int64 *next_id, Version *versions, int most)
{
	static constexpr int64 kManyBytes = 1024 * 1024;
	SegmentSet segments(RowExclusiveLock);
	IndexLookup lookup;
	Version version;
	int64 bytes = 0;
	int n = 0;
	bool full = false;
	start_by_id(&lookup, segments.open(from.number), from, *next_id);
	while (!full && read_version(&lookup, from, &version))
	{
		if (version.verdict != Verdict::kLive)
			continue;
		full = n == most || bytes > kManyBytes;
		if (full)
			*next_id = version.hint.key.job_id;
		else
			versions[n++] = version;
		bytes += version.bytes;
	}
	end_index_lookup(&lookup);
	segments.close();
	if (!full)
		*next_id = 0;
	return n;
}

/* Whatever becomes of the row, at commit the lease ends and the job is filed: a hint too many is no fault. */
static bool
move_row(SegmentSet &segments, const Version &version, const Segment &to)
{
	QueueRef ref;
	Lease *lease;
	VirtualTransactionId other;
	Hint hint = version.hint;
	/* A queue without a slot: its rows are read when it gets one. */
	if (!find_attached_queue(tables().database, version.queue_id, &ref))
		return false;
	reserve_hints(ref, tables().queue, 1);
	if (take_lease_to_end(ref, hint, LeaseEnd::kMoved, &lease, &other) != TakeResult::kTaken)
		return false;
	bool moved = move_job(segments, hint.place, hint.key.job_id, to, &hint);
	add_hint(ref, hint, false);
	return moved;
}

int
move_rows(const Segment &from, const Segment &to, int64 *next_id, int most)
{
	auto *versions = static_cast<Version *>(palloc(most * sizeof(Version)));
	int n = collect_live(from, next_id, versions, most);
	SegmentSet segments(RowExclusiveLock);
	int moved = 0;
	for (int i = 0; i < n; i++)
		moved += move_row(segments, versions[i], to);
	segments.close();
	pfree(versions);
	stop_point("rotation-moved");
	return moved;
}

bool
wait_for_mover(const QueueRef &ref)
{
	VirtualTransactionId mover =
		with_lwlock(ref.queue->lock, LW_SHARED, [&] { return ref.queue->mover; });
	if (!VirtualTransactionIdIsValid(mover) || VirtualXactLock(mover, false))
		return false;
	VirtualXactLock(mover, true);
	return true;
}

/* ---- truncating ---- */

/* What a page says, and the newest transaction on it. */
static Remains
inspect_page(Relation rel, Buffer buffer, TransactionId *newest)
{
	Remains remains = Remains::kNone;
	Page page = BufferGetPage(buffer);
	auto note = [&](TransactionId xid) {
		if (TransactionIdIsNormal(xid) &&
			(!TransactionIdIsValid(*newest) || TransactionIdFollows(xid, *newest)))
			*newest = xid;
	};
	for (OffsetNumber i = FirstOffsetNumber;
		 i <= PageGetMaxOffsetNumber(page) && remains == Remains::kNone; i++)
	{
		ItemId item = PageGetItemId(page, i);
		if (!ItemIdIsNormal(item))
			continue;
		HeapTupleData tuple;
		tuple.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = RelationGetRelid(rel);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), i);
		if (judge_version(&tuple, buffer) != Verdict::kDead)
			remains = Remains::kSome;
		note(HeapTupleHeaderGetXmin(tuple.t_data));
		if (!(tuple.t_data->t_infomask & HEAP_XMAX_INVALID))
			note(HeapTupleHeaderGetUpdateXid(tuple.t_data));
	}
	return remains;
}

Remains
inspect_segment(const Segment &segment, XLogRecPtr *changed_at, TransactionId *newest)
{
	/* Nobody has uncommitted writes in it then, nor a commit whose callback is to come. */
	if (!ConditionalLockRelationOid(segment.heap, ShareLock))
		return Remains::kUnknown;
	static constexpr BlockNumber kPatience = 32;
	XLogRecPtr before = GetXLogInsertRecPtr();
	bool changed = false;
	*newest = InvalidTransactionId;
	Remains remains = Remains::kNone;
	Relation rel = table_open(segment.heap, NoLock);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	for (BlockNumber block = 0; block < blocks && remains == Remains::kNone; block++)
	{
		CHECK_FOR_INTERRUPTS();
		if (block % kPatience == 0 && LockHasWaitersRelation(rel, ShareLock))
		{
			remains = Remains::kUnknown;
			break;
		}
		Buffer buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		changed |= BufferGetLSNAtomic(buffer) > *changed_at;
		remains = inspect_page(rel, buffer, newest);
		UnlockReleaseBuffer(buffer);
	}
	FreeAccessStrategy(strategy);
	table_close(rel, NoLock);
	if (changed)
		*changed_at = before;
	return remains;
}

bool
is_seen_by_all(const Segment &segment, TransactionId xid)
{
	Relation rel = table_open(segment.heap, AccessShareLock);
	TransactionId horizon = GetOldestNonRemovableTransactionId(rel);
	table_close(rel, AccessShareLock);
	return !TransactionIdIsValid(xid) || TransactionIdPrecedes(xid, horizon);
}

static bool
lock_indexes(Oid relid)
{
	Relation rel = table_open(relid, NoLock);
	List *indexes = RelationGetIndexList(rel);
	bool locked = true;
	ListCell *cell;
	foreach (cell, indexes)
		locked = locked && ConditionalLockRelationOid(lfirst_oid(cell), AccessExclusiveLock);
	list_free(indexes);
	table_close(rel, NoLock);
	return locked;
}

/* Somebody is nearly always reading on its index for a moment. */
static bool
lock_against_readers(const Segment &segment)
{
	static constexpr int kTries = 20;
	static constexpr long kBetween = 1000;
	Relation rel = table_open(segment.heap, NoLock);
	bool locked = false;
	for (int i = 0; i < kTries && !locked && !LockHasWaitersRelation(rel, ShareLock); i++)
	{
		if (i > 0)
			pg_usleep(kBetween);
		locked = ConditionalLockRelationOid(segment.heap, AccessExclusiveLock);
	}
	table_close(rel, NoLock);
	return locked;
}

/* All that TRUNCATE will lock: an autovacuum of the TOAST table alone would make it wait. */
static bool
lock_to_truncate(const Segment &segment)
{
	Oid toast = toast_of(segment);
	return lock_against_readers(segment) && lock_indexes(segment.heap) &&
		   (!OidIsValid(toast) ||
			(ConditionalLockRelationOid(toast, AccessExclusiveLock) && lock_indexes(toast)));
}

bool
truncate_segment(const Segment &segment)
{
	stop_point("rotation-verified");
	if (!lock_to_truncate(segment))
		return false;
	/* Perhaps a dump, with a snapshot from before. */
	Relation rel = table_open(segment.heap, NoLock);
	bool awaited = LockHasWaitersRelation(rel, AccessExclusiveLock);
	table_close(rel, NoLock);
	if (awaited)
		return false;
	as_owner([&] { spi_run("TRUNCATE ONLY pgq_ext.job_%d", segment.number); });
	stop_point("rotation-truncated");
	return true;
}

} // namespace pgq
