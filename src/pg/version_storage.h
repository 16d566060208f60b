/*
 * Differences between the versions of the server in the access to tables and indexes: a part of
 * pg/version.h, which includes this file.
 */
#pragma once

namespace pgq {

/* Which indexes need a new entry after an update. */
enum class OwedEntries : uint8
{
	kNone,
	/* only indexes that summarize blocks (BRIN): for other indexes the update is HOT */
	kSummarizing,
	kAll,
};

/*
 * Call heap_update(). With wait, waits for other transactions that have locked the row. *owed: set to
 * the indexes that need an entry for the new version.
 */
inline TM_Result
update_row(Relation rel, ItemPointer tid, HeapTuple next, bool wait, OwedEntries *owed)
{
	TM_FailureData failure;
	LockTupleMode lock_mode;
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes indexes;
#if PG_VERSION_NUM >= 190000
	TM_Result result = heap_update(rel, tid, next, GetCurrentCommandId(true), 0, InvalidSnapshot,
								   wait, &failure, &lock_mode, &indexes);
#else
	TM_Result result = heap_update(rel, tid, next, GetCurrentCommandId(true), InvalidSnapshot, wait,
								   &failure, &lock_mode, &indexes);
#endif
	*owed = indexes == TU_All			? OwedEntries::kAll
			: indexes == TU_Summarizing ? OwedEntries::kSummarizing
										: OwedEntries::kNone;
#else
	TM_Result result = heap_update(rel, tid, next, GetCurrentCommandId(true), InvalidSnapshot, wait,
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

/* The file of a table. */
#if PG_VERSION_NUM >= 160000
using TableFile = RelFileLocator;
#else
using TableFile = RelFileNode;
#endif

inline TableFile
file_of(Relation rel)
{
#if PG_VERSION_NUM >= 160000
	return rel->rd_locator;
#else
	return rel->rd_node;
#endif
}

/* Remove dead versions from a page that is pinned and not locked, if that is worth while now. */
inline void
prune_page(Relation rel, Buffer buffer)
{
#if PG_VERSION_NUM >= 190000
	Buffer map = InvalidBuffer;
	heap_page_prune_opt(rel, buffer, &map, false);
	if (BufferIsValid(map))
		ReleaseBuffer(map);
#else
	heap_page_prune_opt(rel, buffer);
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

/* The number in the special space of a sequence's page: SEQ_MAGIC of the server. */
inline constexpr uint32 kSequenceMagic = 0x1717;

/* Write the WAL record of a sequence's page, which has only that row. */
inline XLogRecPtr
log_sequence(Relation rel, Buffer buffer, HeapTuple row)
{
	xl_seq_rec record;
#if PG_VERSION_NUM >= 160000
	record.locator = rel->rd_locator;
#else
	record.node = rel->rd_node;
#endif
	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, REGBUF_WILL_INIT);
	XLogRegisterData(reinterpret_cast<char *>(&record), sizeof(record));
	XLogRegisterData(reinterpret_cast<char *>(row->t_data), row->t_len);
	return XLogInsert(RM_SEQ_ID, XLOG_SEQ_LOG);
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

} // namespace pgq
