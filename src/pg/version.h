/*
 * What differs between the versions of the server, 15, 17, 18 and 19, settled in functions that are the same for all. No
 * other file asks for the version. Included by pg/pg.h.
 */
#pragma once

#if PG_VERSION_NUM >= 190000
extern "C" {
#include "nodes/miscnodes.h"
}
#endif

namespace pgq {

/* ---- signals ---- */

/* What a handler, which is declared with SIGNAL_ARGS, hands on to the server's. */
#if PG_VERSION_NUM >= 190000
#define PGQ_SIGNAL postgres_signal_arg, pg_siginfo
#else
#define PGQ_SIGNAL postgres_signal_arg
#endif

/* As if a SIGHUP had come. */
inline void
ask_for_reload()
{
#if PG_VERSION_NUM >= 190000
	pg_signal_info nobody{};
	SignalHandlerForConfigReload(SIGHUP, &nobody);
#else
	SignalHandlerForConfigReload(SIGHUP);
#endif
}

/* ---- workers ---- */

/* CREATE DATABASE from a template, ALTER and DROP DATABASE send SIGTERM to a worker with this flag, rather than wait for it. */
#if PG_VERSION_NUM >= 190000
inline constexpr int kEndsForDatabase = BGWORKER_INTERRUPTIBLE;
#else
inline constexpr int kEndsForDatabase = 0;
#endif

/* ---- processes ---- */

/* The number of this process among all there can be: 0 to max_processes. */
inline int
my_procno()
{
#if PG_VERSION_NUM >= 170000
	return MyProcNumber;
#else
	return MyProc->pgprocno;
#endif
}

/*
 * A process by the number in its virtual transaction id, which is not my_procno() before 17. NULL: it has none, or none
 * any more; it has aborted its transaction by then.
 */
inline PGPROC *
process_by_id(int id)
{
#if PG_VERSION_NUM >= 170000
	return ProcNumberGetProc(id);
#else
	return BackendIdGetProc(id);
#endif
}

/* These numbers are in [kFirstProcessId, kFirstProcessId + MaxBackends). */
#if PG_VERSION_NUM >= 170000
inline constexpr int kFirstProcessId = 0;
#else
inline constexpr int kFirstProcessId = 1;
#endif

/* The transaction that this process is in, 0 if in none. */
inline LocalTransactionId
local_xid_of(const PGPROC *process)
{
#if PG_VERSION_NUM >= 170000
	return process->vxid.lxid;
#else
	return process->lxid;
#endif
}

/* ---- heavyweight locks ---- */

/* Does this process have it, in that mode? */
inline bool
has_lock(const LOCKTAG &tag, LOCKMODE mode)
{
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(&tag, mode, false);
#else
	return LockHeldByMe(&tag, mode);
#endif
}

/* ---- virtual transaction ids ---- */

/* This transaction, as the lock manager knows it. */
inline VirtualTransactionId
my_virtual_xid()
{
#if PG_VERSION_NUM >= 170000
	return {MyProcNumber, MyProc->vxid.lxid};
#else
	return {MyBackendId, MyProc->lxid};
#endif
}

#if PG_VERSION_NUM >= 170000
inline constexpr VirtualTransactionId kNoVirtualXid = {INVALID_PROC_NUMBER,
													   InvalidLocalTransactionId};
#else
inline constexpr VirtualTransactionId kNoVirtualXid = {InvalidBackendId, InvalidLocalTransactionId};
#endif

/* How the lock manager names a prepared transaction that a restart has brought back. */
inline VirtualTransactionId
virtual_xid_of_prepared(TransactionId xid)
{
	VirtualTransactionId id = kNoVirtualXid;
	id.localTransactionId = xid;
	return id;
}

/* Is it a process's, and not that of a prepared transaction? */
inline bool
is_of_process(const VirtualTransactionId &id)
{
#if PG_VERSION_NUM >= 170000
	return id.procNumber != kNoVirtualXid.procNumber;
#else
	return id.backendId != kNoVirtualXid.backendId;
#endif
}

/* The oldest transaction whose outcome the server still knows. Under XactTruncationLock. */
inline TransactionId
oldest_known_xid()
{
#if PG_VERSION_NUM >= 170000
	return TransamVariables->oldestClogXid;
#else
	return ShmemVariableCache->oldestClogXid;
#endif
}

/* ---- locks ---- */

/* True: it has ended. */
inline bool
has_ended(TransactionId xid)
{
#if PG_VERSION_NUM >= 180000
	return ConditionalXactLockTableWait(xid, false);
#else
	return ConditionalXactLockTableWait(xid);
#endif
}

inline bool
holds_lock(const LOCKTAG &tag, LOCKMODE mode)
{
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(&tag, mode, false);
#else
	return LockHeldByMe(&tag, mode);
#endif
}

/* ---- activity ---- */

/* Sessions as pg_stat_activity shows them; n is 1 and more. */
inline const LocalPgBackendStatus *
nth_session(int n)
{
#if PG_VERSION_NUM >= 160000
	return pgstat_get_local_beentry_by_index(n);
#else
	return pgstat_fetch_stat_local_beentry(n);
#endif
}

/* Dead rows of a table, as pg_stat_all_tables shows them. */
inline int64
told_dead_rows(Oid relid)
{
	const PgStat_StatTabEntry *told = pgstat_fetch_stat_tabentry(relid);
#if PG_VERSION_NUM >= 160000
	return told != nullptr ? told->dead_tuples : 0;
#else
	return told != nullptr ? told->n_dead_tuples : 0;
#endif
}

/* ---- caches ---- */

/* Which cache, for a callback that learns of its invalidations. */
#if PG_VERSION_NUM >= 190000
using CacheId = SysCacheIdentifier;
#else
using CacheId = int;
#endif

/* ---- heap and indexes ---- */

/* heap_update() that waits. *indexes: which of them need an entry for the new version. */
enum class OwedEntries : uint8
{
	kNone,
	kSummarizing, /* those that keep a summary of blocks, BRIN: the version is HOT for the others */
	kAll,
};

inline TM_Result
update_row(Relation rel, ItemPointer tid, HeapTuple next, OwedEntries *owed)
{
	TM_FailureData failure;
	LockTupleMode lock_mode;
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes indexes;
#if PG_VERSION_NUM >= 190000
	TM_Result result = heap_update(rel, tid, next, GetCurrentCommandId(true), 0, InvalidSnapshot,
								   true, &failure, &lock_mode, &indexes);
#else
	TM_Result result = heap_update(rel, tid, next, GetCurrentCommandId(true), InvalidSnapshot, true,
								   &failure, &lock_mode, &indexes);
#endif
	*owed = indexes == TU_All			? OwedEntries::kAll
			: indexes == TU_Summarizing ? OwedEntries::kSummarizing
										: OwedEntries::kNone;
#else
	TM_Result result = heap_update(rel, tid, next, GetCurrentCommandId(true), InvalidSnapshot, true,
								   &failure, &lock_mode);
	*owed = HeapTupleIsHeapOnly(next) ? OwedEntries::kNone : OwedEntries::kAll;
#endif
	return result;
}

/* heap_delete(); moves: the row goes on in another table. */
inline TM_Result
delete_row(Relation rel, ItemPointer tid, bool wait, TM_FailureData *failure, bool moves)
{
#if PG_VERSION_NUM >= 190000
	return heap_delete(rel, tid, GetCurrentCommandId(true),
					   moves ? TABLE_DELETE_CHANGING_PARTITION : 0, InvalidSnapshot, wait, failure);
#else
	return heap_delete(rel, tid, GetCurrentCommandId(true), InvalidSnapshot, wait, failure, moves);
#endif
}

inline TableScanDesc
begin_table_scan(Relation rel, Snapshot snapshot, int keys, ScanKeyData *key)
{
#if PG_VERSION_NUM >= 190000
	return table_beginscan(rel, snapshot, keys, key, SO_NONE);
#else
	return table_beginscan(rel, snapshot, keys, key);
#endif
}

inline IndexScanDesc
begin_index_scan(Relation heap, Relation index, Snapshot snapshot, int keys)
{
#if PG_VERSION_NUM >= 190000
	return index_beginscan(heap, index, snapshot, nullptr, keys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, nullptr, keys, 0);
#else
	return index_beginscan(heap, index, snapshot, keys, 0);
#endif
}

/* The leaf of a btree where an entry with that key belongs, pinned and locked for a write. */
inline Buffer
lock_leaf(Relation heap, Relation index, BTScanInsert key)
{
	Buffer leaf;
#if PG_VERSION_NUM >= 190000
	/* With the way down, which finishes a split that somebody has left half done. */
	BTStack way = _bt_search(index, heap, key, &leaf, BT_WRITE, true);
	while (way != nullptr)
	{
		BTStack up = way->bts_parent;
		pfree(way);
		way = up;
	}
#elif PG_VERSION_NUM >= 170000
	_bt_freestack(_bt_search(index, heap, key, &leaf, BT_WRITE));
#elif PG_VERSION_NUM >= 160000
	_bt_freestack(_bt_search(index, heap, key, &leaf, BT_WRITE, nullptr));
#else
	_bt_freestack(_bt_search(index, key, &leaf, BT_WRITE, nullptr));
#endif
	return leaf;
}

/* A descriptor that was put together by hand is complete. */
inline void
finish_descriptor([[maybe_unused]] TupleDesc desc)
{
#if PG_VERSION_NUM >= 190000
	TupleDescFinalize(desc);
#endif
}

/* What PageAddItem() takes. */
#if PG_VERSION_NUM >= 190000
using PageItem = const void *;
#else
using PageItem = Item;
#endif

/* As the executor does after an INSERT or UPDATE; only_summarizing: the version is HOT. */
inline List *
insert_index_tuples(ResultRelInfo *result, TupleTableSlot *slot, EState *estate, bool no_error,
					bool only_summarizing)
{
#if PG_VERSION_NUM >= 190000
	return ExecInsertIndexTuples(result, estate,
								 (no_error ? EIIT_NO_DUPE_ERROR : 0) |
									 (only_summarizing ? EIIT_ONLY_SUMMARIZING : 0),
								 slot, NIL, nullptr);
#elif PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(result, slot, estate, false, no_error, nullptr, NIL,
								 only_summarizing);
#else
	return ExecInsertIndexTuples(result, slot, estate, false, no_error, nullptr, NIL);
#endif
}

/* Invalid: it has none that is checked at once. */
inline Oid
primary_key_of(Relation rel)
{
#if PG_VERSION_NUM >= 180000
	return RelationGetPrimaryKeyIndex(rel, false);
#else
	return RelationGetPrimaryKeyIndex(rel);
#endif
}

/* An empty file for the table, at commit. */
inline void
give_new_file(Relation rel)
{
#if PG_VERSION_NUM >= 160000
	RelationSetNewRelfilenumber(rel, rel->rd_rel->relpersistence);
#else
	RelationSetNewRelfilenode(rel, rel->rd_rel->relpersistence);
#endif
}

inline void
rebuild_indexes(Oid relid, int flags)
{
	ReindexParams options{};
#if PG_VERSION_NUM >= 170000
	reindex_relation(nullptr, relid, flags, &options);
#else
	reindex_relation(relid, flags, &options);
#endif
}

inline void
set_trigger(Relation rel, const char *name, char when, LOCKMODE mode)
{
#if PG_VERSION_NUM >= 160000
	EnableDisableTrigger(rel, name, InvalidOid, when, false, false, mode);
#else
	EnableDisableTrigger(rel, name, when, false, mode);
#endif
}

/* ---- waiting ---- */

inline uint32
new_wait_event([[maybe_unused]] const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	return PG_WAIT_EXTENSION;
#endif
}

/* ---- time ---- */

/* What ends a statement of a client when its time is over. */
#if PG_VERSION_NUM >= 170000
inline constexpr TimeoutId kTimeLimits[] = {STATEMENT_TIMEOUT, TRANSACTION_TIMEOUT};
#else
inline constexpr TimeoutId kTimeLimits[] = {STATEMENT_TIMEOUT};
#endif

/* ---- shared memory ---- */

/* A hash table of so many entries and no more. */
inline HTAB *
new_shared_hash(const char *name, int64 entries, HASHCTL *info, int flags)
{
#if PG_VERSION_NUM >= 190000
	return ShmemInitHash(name, entries, info, flags);
#else
	return ShmemInitHash(name, entries, entries, info, flags);
#endif
}

/* ---- values ---- */

/* False: it is beyond an int4. Rounded. */
inline bool
numeric_to_int4(Numeric value, int32 *number)
{
#if PG_VERSION_NUM >= 190000
	ErrorSaveContext caught{};
	caught.type = T_ErrorSaveContext;
	*number = numeric_int4_safe(value, reinterpret_cast<Node *>(&caught));
	return !caught.error_occurred;
#else
	bool failed = false;
	*number = numeric_int4_opt_error(value, &failed);
	return !failed;
#endif
}

/* ---- settings ---- */

/* All of them; the array is the caller's to free, perhaps. */
inline config_generic **
all_settings(int *n)
{
#if PG_VERSION_NUM >= 160000
	return get_guc_variables(n);
#else
	*n = GetNumConfigOptions();
	return get_guc_variables();
#endif
}

} // namespace pgq
