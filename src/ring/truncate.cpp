#include "ring/truncate.h"

#include "catalog/lock_order.h"
#include "catalog/subscription.h"
#include "pg/stop_point.h"
#include "ring/empty.h"
#include "ring/segment.h"
#include "ring/survey.h"
#include "rows/visibility.h"

namespace pgq {

/*
 * Inspect one version. Returns kSome if the version is needed: it is busy, or it is live and not
 * past its time. Otherwise, if the transaction that has written or deleted the version is newer
 * than *newest, sets *newest to that transaction.
 */
static Remains
inspect_version(HeapTuple tuple, Buffer buffer, TupleDesc desc, const Expiry *expiry,
				TransactionId *newest)
{
	auto note = [&](TransactionId xid) {
		if (TransactionIdIsNormal(xid) &&
			(!TransactionIdIsValid(*newest) || TransactionIdFollows(xid, *newest)))
			*newest = xid;
	};
	Visibility visibility = visibility_of(tuple, buffer);
	if (visibility != Visibility::kDead &&
		(visibility != Visibility::kLive || !is_past(expiry, tuple, desc)))
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
	/*
	 * While this lock is held, no other transaction has uncommitted rows in the segment, and all
	 * transactions that have committed rows in the segment have run their commit callbacks.
	 */
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

/*
 * Raise the ShareLock on the segment to AccessExclusiveLock. Try several times, since scans lock
 * the segment again and again for moments.
 */
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

/*
 * Take all locks that TRUNCATE needs, without waiting, also the lock of the TOAST table: an
 * autovacuum of just that table would otherwise make TRUNCATE wait.
 */
static bool
lock_to_truncate(const Segment &segment)
{
	Oid toast = toast_of(segment);
	return lock_against_readers(segment) && lock_with_indexes(segment.heap, AccessExclusiveLock) &&
		   (!OidIsValid(toast) || lock_with_indexes(toast, AccessExclusiveLock));
}

/* Write the WAL record of a TRUNCATE for logical decoding, as ExecuteTruncateGuts() does. */
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
 * Empty the files as TRUNCATE does, without firing triggers and without the check of foreign keys:
 * there is no live row to which a foreign key could refer. The files are emptied in place. If live
 * rows past their time are left, the table gets new files instead, since a rollback must be able to
 * bring these rows back.
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
 * Call empty_files() with a limit on the waits for locks. New files need an update of the table's
 * row in pg_class. A transaction that has changed the table's privileges, and is still open, has
 * locked that row; before PostgreSQL 18, such a transaction has not locked the table. Without a
 * limit, readers of the segment would wait for that transaction, too.
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
	/*
	 * If a session waits for the segment, do not truncate: that session may be a dump with an older
	 * snapshot.
	 */
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
