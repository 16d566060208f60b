/*
 * Differences between the versions of the server, hidden behind functions that are the same for all
 * versions. No other file asks for the version. Included by pg/pg.h.
 */
#pragma once

#if PG_VERSION_NUM >= 190000
extern "C" {
#include "nodes/miscnodes.h"
}
#endif

namespace pgq {

/* ---- signals ---- */

/* The arguments of a SIGNAL_ARGS handler, to be passed on to a handler of the server. */
#if PG_VERSION_NUM >= 190000
#define PGQ_SIGNAL postgres_signal_arg, pg_siginfo
#else
#define PGQ_SIGNAL postgres_signal_arg
#endif

/* Do what the handler of SIGHUP does: the process reads its configuration files again soon. */
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

/*
 * With this flag, CREATE, ALTER and DROP DATABASE end a worker by SIGTERM; without it, they wait
 * for the worker.
 */
#if PG_VERSION_NUM >= 190000
inline constexpr int kEndsForDatabase = BGWORKER_INTERRUPTIBLE;
#else
inline constexpr int kEndsForDatabase = 0;
#endif

/* ---- processes ---- */

/* Return the number of this process: 0 <= number < process_count() (engine/shared.h). */
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
 * Return the process whose virtual transaction ids contain that number; nullptr if there is none.
 * Before PostgreSQL 17 this number is not my_procno(). A process that exits gives up its number
 * after it has aborted its transaction.
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

/* The numbers for process_by_id() are in [kFirstProcessId, kFirstProcessId + MaxBackends). */
#if PG_VERSION_NUM >= 170000
inline constexpr int kFirstProcessId = 0;
#else
inline constexpr int kFirstProcessId = 1;
#endif

/* Return the local id of the transaction that the process is in, 0 if it is in none. */
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

/* Return whether this process holds the lock in that mode. */
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

/* Return the virtual id of this transaction. */
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

/* Return the virtual id that the lock manager gives a prepared transaction after a restart. */
inline VirtualTransactionId
virtual_xid_of_prepared(TransactionId xid)
{
	VirtualTransactionId id = kNoVirtualXid;
	id.localTransactionId = xid;
	return id;
}

/* Return whether the id belongs to a process, not to a prepared transaction. */
inline bool
is_of_process(const VirtualTransactionId &id)
{
#if PG_VERSION_NUM >= 170000
	return id.procNumber != kNoVirtualXid.procNumber;
#else
	return id.backendId != kNoVirtualXid.backendId;
#endif
}

/* Return the oldest xid whose outcome the server still knows. Caller holds XactTruncationLock. */
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

/* Return whether the transaction has ended, without waiting. */
inline bool
has_ended(TransactionId xid)
{
#if PG_VERSION_NUM >= 180000
	return ConditionalXactLockTableWait(xid, false);
#else
	return ConditionalXactLockTableWait(xid);
#endif
}

/* ---- activity ---- */

/* Return the nth of the sessions that pg_stat_activity shows, counted from 1. */
inline const LocalPgBackendStatus *
nth_session(int n)
{
#if PG_VERSION_NUM >= 160000
	return pgstat_get_local_beentry_by_index(n);
#else
	return pgstat_fetch_stat_local_beentry(n);
#endif
}

/* Return the number of dead rows that pg_stat_all_tables shows of the table. */
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

/* Type in which an invalidation callback gets the number of a system cache. */
#if PG_VERSION_NUM >= 190000
using CacheId = SysCacheIdentifier;
#else
using CacheId = int;
#endif

/* ---- heap and indexes ---- */

/* Which indexes need a new entry after an update. */
enum class OwedEntries : uint8
{
	kNone,
	/* only indexes that summarize blocks (BRIN): for other indexes the update is HOT */
	kSummarizing,
	kAll,
};

/*
 * Call heap_update(), and wait for other transactions that have locked the row. *owed: set to the
 * indexes that need an entry for the new version.
 */
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

/* Call heap_delete(). moves: the row is moved to another partition. */
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

/* Return the btree leaf where an entry with that key belongs, pinned and locked for writing. */
inline Buffer
lock_leaf(Relation heap, Relation index, BTScanInsert key)
{
	Buffer leaf;
#if PG_VERSION_NUM >= 190000
	/* Ask for the stack of parent pages, which _bt_search() needs to finish an incomplete split. */
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

/* Complete a tuple descriptor that was built field by field. */
inline void
finish_descriptor([[maybe_unused]] TupleDesc desc)
{
#if PG_VERSION_NUM >= 190000
	TupleDescFinalize(desc);
#endif
}

/* Type of the argument `item` of PageAddItem(). */
#if PG_VERSION_NUM >= 190000
using PageItem = const void *;
#else
using PageItem = Item;
#endif

/* Insert index entries as the executor does. only_summarizing: the update is HOT. */
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

/* Return the primary key's index, or InvalidOid if there is none or it is deferrable. */
inline Oid
primary_key_of(Relation rel)
{
#if PG_VERSION_NUM >= 180000
	return RelationGetPrimaryKeyIndex(rel, false);
#else
	return RelationGetPrimaryKeyIndex(rel);
#endif
}

/* Replace the table's file by a new, empty file. Takes effect at commit. */
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

/* Timeouts that can end a statement of a client. */
#if PG_VERSION_NUM >= 170000
inline constexpr TimeoutId kTimeLimits[] = {STATEMENT_TIMEOUT, TRANSACTION_TIMEOUT};
#else
inline constexpr TimeoutId kTimeLimits[] = {STATEMENT_TIMEOUT};
#endif

/* ---- shared memory ---- */

/* Create a hash table in shared memory with a fixed number of entries. */
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

/* Convert to int4 with rounding. Return false if the value is out of range. */
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

/*
 * Return an array of all settings. In some versions of the server, the caller gets a new array each
 * time.
 */
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
