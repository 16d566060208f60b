#include "ring/empty.h"

#include "pg/scope.h"
#include "pg/stop_point.h"

namespace pgq {

/* ---- emptying files in place ---- */

/*
 * Run body for each index of the table. The indexes are already locked in the same mode as the
 * table.
 */
template <typename Body>
static void
for_each_index(Relation rel, Body body)
{
	List *indexes = RelationGetIndexList(rel);
	ListCell *cell;
	foreach (cell, indexes)
	{
		Relation index = index_open(lfirst_oid(cell), NoLock);
		body(index);
		index_close(index, NoLock);
	}
	list_free(indexes);
}

static bool
is_longer(Relation rel, BlockNumber blocks)
{
	return RelationGetNumberOfBlocks(rel) > blocks;
}

static void
cut_pages(Relation rel, BlockNumber left)
{
	if (is_longer(rel, left))
		RelationTruncate(rel, left);
}

/*
 * Make all backends forget the cached root of the index. The invalidation is sent before the root
 * is removed, so that an error in between cannot prevent the invalidation.
 */
static void
tell_of_new_root(Relation index)
{
	SharedInvalidationMessage message{};
	message.rc.id = SHAREDINVALRELCACHE_ID;
	message.rc.dbId = MyDatabaseId;
	message.rc.relId = RelationGetRelid(index);
	SendSharedInvalidMessages(&message, 1);
	if (XLogStandbyInfoActive())
		LogStandbyInvalidations(1, &message, false);
}

/*
 * Make the index an empty tree by writing a metapage without a root. The other pages are not used
 * any more, and may be cut at any time.
 */
static void
take_root(Relation index)
{
	if (!is_longer(index, BTREE_METAPAGE + 1))
		return;
	TransferPredicateLocksToHeapRelation(index);
	tell_of_new_root(index);
	Buffer buffer = ReadBuffer(index, BTREE_METAPAGE);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	Page page = BufferGetPage(buffer);
	in_critical_section([&] {
		_bt_initmetapage(page, P_NONE, 0, BTPageGetMeta(page)->btm_allequalimage);
		MarkBufferDirty(buffer);
		if (RelationNeedsWAL(index))
			(void) log_newpage_buffer(buffer, true);
	});
	UnlockReleaseBuffer(buffer);
}

/*
 * Cut the files of the table and its indexes. The order of the steps matters if an error or a crash
 * comes between two of them. Heap rows without index entries are dead anyway, and a tree without a
 * root is empty. But index entries without rows, or a root without its page, would raise errors in
 * every session. So the indexes come first, and the WAL of the new metapages is flushed before any
 * file is cut.
 */
static void
cut_table(Relation rel)
{
	for_each_index(rel, take_root);
	XLogFlush(XactLastRecEnd);
	for_each_index(rel, [](Relation index) { cut_pages(index, BTREE_METAPAGE + 1); });
	stop_point("rotation-cut");
	cut_pages(rel, 0);
	pgstat_count_truncate(rel);
}

void
cut_files(Relation rel)
{
	if (OidIsValid(rel->rd_rel->reltoastrelid))
	{
		Relation toast = table_open(rel->rd_rel->reltoastrelid, NoLock);
		if (is_longer(toast, 0))
			cut_table(toast);
		table_close(toast, NoLock);
	}
	cut_table(rel);
}

/*
 * Return whether the table's relfrozenxid is so old that the table should get new files. New files
 * start with a young relfrozenxid, so that no VACUUM has to freeze the table.
 */
static bool
is_old(Relation rel)
{
	TransactionId age = ReadNextTransactionId() - rel->rd_rel->relfrozenxid;
	return age > static_cast<TransactionId>(autovacuum_freeze_max_age) / 2;
}

bool
can_be_cut(Relation rel)
{
	bool known = true;
	for_each_index(rel, [&](Relation index) { known &= index->rd_rel->relam == BTREE_AM_OID; });
	return known && !is_old(rel);
}

/* ---- new files ---- */

/* Give the table new files, and rebuild its indexes with the rights of the table's owner. */
void
exchange_files(Relation rel)
{
	give_new_file(rel);
	if (OidIsValid(rel->rd_rel->reltoastrelid))
	{
		Relation toast = table_open(rel->rd_rel->reltoastrelid, NoLock);
		give_new_file(toast);
		pgstat_count_truncate(toast);
		table_close(toast, NoLock);
	}
	rebuild_indexes(RelationGetRelid(rel), REINDEX_REL_PROCESS_TOAST);
	pgstat_count_truncate(rel);
}

} // namespace pgq
