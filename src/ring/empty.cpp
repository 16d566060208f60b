#include "ring/empty.h"

#include "pg/scope.h"
#include "pg/stop_point.h"

namespace pgq {

/* ---- in place ---- */

/* Run body for each index, which is locked as the table is. */
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

/* Everybody remembers the root. Told before it goes: an error must not keep that from anybody. */
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

/* The tree is empty from here on; its pages are of no use, and may be there or not. */
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
 * After an error or a crash rows without entries are dead ones still, and a tree without a root is
 * empty; entries without rows, or a root without its page, would be errors for everybody.
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

/* A new file is as young as can be: so nobody ever has to freeze what was in the old one. */
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

/* Indexes are built anew with the rights of the owner of the table. */
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
