#include "ring/truncate.h"

#include "catalog/subscription.h"
#include "pg/stop_point.h"
#include "ring/empty.h"
#include "ring/segment.h"
#include "ring/survey.h"
#include "rows/judge.h"

namespace pgq {

/* The version, if anybody wants it; otherwise note the newest transaction that was at it. */
static Remains
inspect_version(HeapTuple tuple, Buffer buffer, TupleDesc desc, const Expiry *expiry,
				TransactionId *newest)
{
	auto note = [&](TransactionId xid) {
		if (TransactionIdIsNormal(xid) &&
			(!TransactionIdIsValid(*newest) || TransactionIdFollows(xid, *newest)))
			*newest = xid;
	};
	Verdict verdict = judge_version(tuple, buffer);
	if (verdict != Verdict::kDead && (verdict != Verdict::kLive || !is_past(expiry, tuple, desc)))
		return Remains::kSome;
	note(HeapTupleHeaderGetXmin(tuple->t_data));
	if (!(tuple->t_data->t_infomask & HEAP_XMAX_INVALID) &&
		!HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_data->t_infomask))
		note(HeapTupleHeaderGetUpdateXid(tuple->t_data));
	return Remains::kNone;
}

Remains
inspect_segment(const Segment &segment, const Expiry *expiry, XLogRecPtr *changed_at,
				TransactionId *newest)
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
		visit_page(rel, buffer, FirstOffsetNumber, [&](HeapTuple tuple) {
			remains = inspect_version(tuple, buffer, RelationGetDescr(rel), expiry, newest);
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
 * could refer to. In place, unless there are rows that live, which an error would have to bring back.
 */
static TruncatedBy
empty_files(Relation rel, bool may_have_rows)
{
	CheckTableNotInUse(rel, "TRUNCATE");
	CheckTableForSerializableConflictIn(rel);
	TruncatedBy how =
		may_have_rows || !can_be_cut(rel) ? TruncatedBy::kNewFiles : TruncatedBy::kCutting;
	if (how == TruncatedBy::kCutting)
		cut_files(rel);
	else
		exchange_files(rel);
	log_truncation(rel);
	return how;
}

/*
 * With new files the row of the table in pg_class is written. Who has changed its rights and not ended has locked that, and, before
 * 18, no table: readers of the segment must not stand behind him.
 */
static TruncatedBy
empty_files_soon(Relation rel, bool may_have_rows)
{
	int level = NewGUCNestLevel();
	(void) set_config_option("lock_timeout", "100ms", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	TruncatedBy how = empty_files(rel, may_have_rows);
	AtEOXact_GUC(true, level);
	return how;
}

TruncatedBy
truncate_segment(const Segment &segment, bool may_have_rows)
{
	stop_point("rotation-verified");
	if (!lock_to_truncate(segment) || is_subscribed())
		return TruncatedBy::kNothing;
	/* Perhaps a dump, with a snapshot from before. */
	Relation rel = table_open(segment.heap, NoLock);
	TruncatedBy how = LockHasWaitersRelation(rel, AccessExclusiveLock)
						  ? TruncatedBy::kNothing
						  : empty_files_soon(rel, may_have_rows);
	table_close(rel, NoLock);
	if (how != TruncatedBy::kNothing)
		stop_point("rotation-truncated");
	return how;
}

} // namespace pgq
