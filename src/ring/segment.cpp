#include "ring/segment.h"

#include "engine/hold.h"
#include "pg/scope.h"
#include "pg/stop_point.h"
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
		   bytes_of(segment.delayed);
}

bool
is_bare(const Segment &segment)
{
	return bytes_of(segment.heap) == 0;
}

bool
lock_with_indexes(Oid relid, LOCKMODE mode)
{
	if (!ConditionalLockRelationOid(relid, mode))
		return false;
	Relation rel = table_open(relid, NoLock);
	List *indexes = RelationGetIndexList(rel);
	bool locked = true;
	ListCell *cell;
	foreach (cell, indexes)
		locked = locked && ConditionalLockRelationOid(lfirst_oid(cell), mode);
	list_free(indexes);
	table_close(rel, NoLock);
	return locked;
}

bool
lock_for_writing(const Segment &segment)
{
	Oid toast = toast_of(segment);
	return (!OidIsValid(toast) || lock_with_indexes(toast, RowExclusiveLock)) &&
		   lock_with_indexes(segment.heap, RowExclusiveLock);
}

/* ---- reading ---- */

/* Visit the versions of a page, which is locked. The visitor says whether to go on. */
template <typename Visit>
static void
visit_versions(Relation rel, Buffer buffer, OffsetNumber from, Visit visit)
{
	Page page = BufferGetPage(buffer);
	bool more = true;
	for (OffsetNumber i = from; i <= PageGetMaxOffsetNumber(page) && more; i++)
	{
		ItemId item = PageGetItemId(page, i);
		if (!ItemIdIsNormal(item))
			continue;
		HeapTupleData tuple;
		tuple.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = RelationGetRelid(rel);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), i);
		more = visit(&tuple);
	}
}

static Buffer
lock_page(Relation rel, BlockNumber block, BufferAccessStrategy strategy)
{
	CHECK_FOR_INTERRUPTS();
	Buffer buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	return buffer;
}

/* What copying the version would cost, roughly. */
static int64
version_bytes(HeapTuple tuple, TupleDesc desc)
{
	int64 bytes = tuple->t_len;
	if (!HeapTupleHasExternal(tuple))
		return bytes;
	for (AttrNumber column = 1; column <= desc->natts; column++)
	{
		bool is_null;
		Datum value = heap_getattr(tuple, column, desc, &is_null);
		if (is_null || TupleDescAttr(desc, column - 1)->attlen != -1 ||
			!VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value)))
			continue;
		varatt_external pointer;
		VARATT_EXTERNAL_GET_POINTER(pointer, DatumGetPointer(value));
		bytes += VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	}
	return bytes;
}

void
read_segment(const Segment &segment, SegmentPass *pass, BlockNumber pages)
{
	/* Copying a twentieth of what is won costs a twentieth of the work that filled the segment. */
	static constexpr int64 kFew = 20;
	/* Dead letters are rare: what is kept long may be copied once, but not take twice its room. */
	static constexpr int64 kFewDead = 2;
	int64 room = table_bytes(segment) / (ring_of(segment.number) == kJobRing ? kFew : kFewDead);
	Relation rel = table_open(segment.heap, AccessShareLock);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	BlockNumber end = RelationGetNumberOfBlocks(rel);
	for (BlockNumber n = 0; n < pages && pass->next < end && !pass->many; n++, pass->next++)
	{
		Buffer buffer = lock_page(rel, pass->next, strategy);
		visit_versions(rel, buffer, FirstOffsetNumber, [&](HeapTuple tuple) {
			if (judge_version(tuple, buffer) == Verdict::kDead)
				return true;
			pass->first_live = Min(pass->first_live, pass->next);
			pass->live_bytes += version_bytes(tuple, RelationGetDescr(rel));
			pass->many = pass->live_bytes > room;
			return !pass->many;
		});
		UnlockReleaseBuffer(buffer);
	}
	pass->at_end = pass->next >= end;
	FreeAccessStrategy(strategy);
	table_close(rel, AccessShareLock);
}

/* ---- moving ---- */

struct Candidate
{
	int32 queue_id;
	Hint hint;
};

/* The live rows from *next on, which goes on. Returns how many. */
static int
collect_live(Relation rel, int segment, Position *next, Candidate *candidates, int most)
{
	static constexpr int64 kManyBytes = 1024 * 1024;
	TupleDesc desc = RelationGetDescr(rel);
	BlockNumber end = RelationGetNumberOfBlocks(rel);
	int64 bytes = 0;
	int n = 0;
	bool full = false;
	while (next->block < end && !full)
	{
		Buffer buffer = lock_page(rel, next->block, nullptr);
		visit_versions(rel, buffer, next->offset, [&](HeapTuple tuple) {
			if (judge_version(tuple, buffer) != Verdict::kLive)
				return true;
			full = n == most || bytes > kManyBytes;
			if (full)
			{
				next->offset = ItemPointerGetOffsetNumber(&tuple->t_self);
				return false;
			}
			bool is_null;
			bytes += version_bytes(tuple, desc);
			candidates[n++] = {DatumGetInt32(heap_getattr(tuple, kJobQueueId, desc, &is_null)),
							   hint_of(tuple, desc, static_cast<uint16>(segment))};
			return true;
		});
		UnlockReleaseBuffer(buffer);
		if (!full)
			*next = {next->block + 1, FirstOffsetNumber};
	}
	return n;
}

/* Whatever becomes of the row, at commit the lease ends and the job is filed: a hint too many is no fault. */
static bool
move_row(SegmentSet &segments, const Candidate &candidate, const Segment &to)
{
	QueueRef ref;
	Lease *lease;
	VirtualTransactionId other;
	Hint hint = candidate.hint;
	/* A queue without a slot: its rows are read when it gets one. */
	if (!find_attached_queue(tables().database, candidate.queue_id, &ref))
		return false;
	reserve_hints(ref, tables().queue, 1);
	if (take_lease_to_end(ref, hint, LeaseEnd::kMoved, &lease, &other) != TakeResult::kTaken)
		return false;
	bool moved = move_job(segments, hint.place, hint.key.job_id, to, &hint);
	add_hint(ref, hint, false);
	return moved;
}

bool
move_rows(const Segment &from, const Segment &to, Position *next, int most, int *moved)
{
	auto *candidates = static_cast<Candidate *>(palloc(most * sizeof(Candidate)));
	SegmentSet segments(RowExclusiveLock);
	Relation rel = segments.open(from.number);
	int n = collect_live(rel, from.number, next, candidates, most);
	*moved = 0;
	for (int i = 0; i < n; i++)
		*moved += move_row(segments, candidates[i], to);
	bool at_end = next->block >= RelationGetNumberOfBlocks(rel);
	segments.close();
	pfree(candidates);
	stop_point("rotation-moved");
	return at_end;
}

void
wait_for_mover(const QueueRef &ref, VirtualTransactionId mover)
{
	if (!VirtualTransactionIdIsValid(mover))
		return;
	VirtualXactLock(mover, true);
	(void) change_queue(ref, [&](QueueHold &hold) {
		if (VirtualTransactionIdEquals(hold->mover, mover))
			SetInvalidVirtualTransactionId(hold->mover);
	});
}

/* ---- truncating ---- */

/* The version, if anybody wants it; otherwise note the newest transaction that was at it. */
static Remains
inspect_version(HeapTuple tuple, Buffer buffer, TransactionId *newest)
{
	auto note = [&](TransactionId xid) {
		if (TransactionIdIsNormal(xid) &&
			(!TransactionIdIsValid(*newest) || TransactionIdFollows(xid, *newest)))
			*newest = xid;
	};
	if (judge_version(tuple, buffer) != Verdict::kDead)
		return Remains::kSome;
	note(HeapTupleHeaderGetXmin(tuple->t_data));
	if (!(tuple->t_data->t_infomask & HEAP_XMAX_INVALID))
		note(HeapTupleHeaderGetUpdateXid(tuple->t_data));
	return Remains::kNone;
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
		if (block % kPatience == 0 && LockHasWaitersRelation(rel, ShareLock))
		{
			remains = Remains::kUnknown;
			break;
		}
		Buffer buffer = lock_page(rel, block, strategy);
		changed |= BufferGetLSNAtomic(buffer) > *changed_at;
		visit_versions(rel, buffer, FirstOffsetNumber, [&](HeapTuple tuple) {
			remains = inspect_version(tuple, buffer, newest);
			return remains == Remains::kNone;
		});
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
	return lock_against_readers(segment) && lock_with_indexes(segment.heap, AccessExclusiveLock) &&
		   (!OidIsValid(toast) || lock_with_indexes(toast, AccessExclusiveLock));
}

/* For subscribers (ExecuteTruncateGuts does the same). */
static void
log_truncation(Relation rel)
{
	if (!RelationIsLogicallyLogged(rel))
		return;
	Oid relid = RelationGetRelid(rel);
	xl_heap_truncate record{};
	record.dbId = MyDatabaseId;
	record.nrelids = 1;
	XLogBeginInsert();
	XLogRegisterData(reinterpret_cast<char *>(&record), SizeOfHeapTruncate);
	XLogRegisterData(reinterpret_cast<char *>(&relid), sizeof(relid));
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	(void) XLogInsert(RM_HEAP_ID, XLOG_HEAP_TRUNCATE);
}

/*
 * What TRUNCATE does, but nobody's trigger is fired, and no foreign key stops it: there is no row left that one
 * could refer to. Indexes are built anew with the rights of the owner of the table.
 */
static void
empty_files(Relation rel)
{
	CheckTableNotInUse(rel, "TRUNCATE");
	CheckTableForSerializableConflictIn(rel);
	RelationSetNewRelfilenode(rel, rel->rd_rel->relpersistence);
	if (OidIsValid(rel->rd_rel->reltoastrelid))
	{
		Relation toast = table_open(rel->rd_rel->reltoastrelid, NoLock);
		RelationSetNewRelfilenode(toast, toast->rd_rel->relpersistence);
		table_close(toast, NoLock);
	}
	ReindexParams options{};
	reindex_relation(RelationGetRelid(rel), REINDEX_REL_PROCESS_TOAST, &options);
	pgstat_count_truncate(rel);
	log_truncation(rel);
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
	if (!awaited)
		empty_files(rel);
	table_close(rel, NoLock);
	if (!awaited)
		stop_point("rotation-truncated");
	return !awaited;
}

} // namespace pgq
