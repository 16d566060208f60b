#include "catalog/queue_row.h"

#include "catalog/queue_columns.h"
#include "catalog/tables.h"
#include "pg/scope.h"
#include "pg/stop_point.h"
#include "pg/virtual_xid.h"
#include "txn/effects.h"

#include <algorithm>

namespace pgq {

namespace {

struct Remembered
{
	char name[kQueueNameMax + 1]; /* key of the hash table */
	Oid incarnation;
	QueueRef ref;
	/* generation of the queue's name; while this number is the same, the queue has the name */
	uint32 namings;
};

} // namespace

static constinit HTAB *remembered = nullptr;

static HTAB *
memory_of_names()
{
	if (remembered == nullptr)
	{
		HASHCTL info{};
		info.keysize = kQueueNameMax + 1;
		info.entrysize = sizeof(Remembered);
		remembered = hash_create("pgq_ext queue names", 32, &info, HASH_ELEM | HASH_STRINGS);
	}
	return remembered;
}

/* Read a row. Returns false if the row has no valid id or name. */
static bool
read_row(Relation rel, HeapTuple tuple, QueueRow *row)
{
	TupleDesc desc = RelationGetDescr(rel);
	bool no_id;
	bool no_name;
	Datum id = heap_getattr(tuple, kQueueId, desc, &no_id);
	Datum name = heap_getattr(tuple, kQueueName, desc, &no_name);
	*row = {};
	if (no_id || no_name)
		return false;
	const text *bytes = DatumGetTextPP(name);
	Size length = VARSIZE_ANY_EXHDR(bytes);
	if (length == 0 || length > kQueueNameMax)
		return false;
	row->queue_id = DatumGetInt32(id);
	memcpy(row->name, VARDATA_ANY(bytes), length);
	row->options = read_options(tuple, desc);
	row->ours = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	return true;
}

static constexpr IndexSpec by_name = {"queue_name_key", {{kQueueName}}, nullptr};

/*
 * Return whether to look for a name in all rows. If the table is one page, that is cheaper than to
 * open the index, in a session that has just begun. But it would let a serializable transaction fail
 * for a change of another queue.
 */
static bool
reads_all_rows(Relation rel)
{
	return RelationGetNumberOfBlocks(rel) <= 1 && !IsolationIsSerializable();
}

bool
read_queue_row(const Tables &t, const char *name, QueueRow *row)
{
	ScanKeyData key;
	ScanKeyInit(&key, kQueueName, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(name));
	key.sk_collation = C_COLLATION_OID;
	Relation rel = open_queues(t);
	Oid index = index_of(rel, by_name, true);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, index, !reads_all_rows(rel), snapshot, 1, &key);
	HeapTuple tuple = systable_getnext(scan);
	bool found = HeapTupleIsValid(tuple) && read_row(rel, tuple, row);
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return found;
}

/* Forget the names of queues that are gone, if this session remembers too many names. */
static void
forget_names()
{
	HTAB *names = memory_of_names();
	if (hash_get_num_entries(names) < 2L * max_queues)
		return;
	HASH_SEQ_STATUS scan;
	hash_seq_init(&scan, names);
	while (auto *entry = static_cast<Remembered *>(hash_seq_search(&scan)))
		if (!is_alive(entry->ref))
			hash_search(names, entry->name, HASH_REMOVE, nullptr);
}

/*
 * Return whether this transaction is dropping the queue, so that it does not see the queue's row.
 */
static bool
dropped_by_us(const QueueRef &ref)
{
	return is_me(dropper_of(ref));
}

/*
 * Visit every valid row of pgq_ext.queue that is committed by now or written by this transaction.
 * without_us: ignore changes of this transaction. Return the number of invalid rows.
 */
template <typename Visit>
static int
for_each_row(const Tables &t, Visit visit, bool without_us = false)
{
	int unreadable = 0;
	Relation rel = open_queues(t);
	Snapshot snapshot =
		without_us ? register_snapshot_of_others() : RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, nullptr);
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		QueueRow row;
		if (read_row(rel, tuple, &row))
			visit(row);
		else
			unreadable++;
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return unreadable;
}

static bool
find_row(const Tables &t, int32 queue_id, bool without_us, QueueRow *wanted)
{
	bool found = false;
	(void) for_each_row(
		t,
		[&](const QueueRow &row) {
			if (row.queue_id != queue_id)
				return;
			*wanted = row;
			found = true;
		},
		without_us);
	return found;
}

/*
 * Return the slot of the row's queue; attach a slot if there is none. Other sessions read the slot,
 * so if this transaction has changed the row, the slot gets the values from before the change. If
 * this transaction has created the queue, the slot gets the new values, and an effect frees the
 * slot on abort.
 */
static QueueRef
attach_row(const Tables &t, const QueueRow &row)
{
	QueueRow before;
	QueueRef ref;
	if (find_attached_queue(t.database, row.queue_id, &ref))
		return ref;
	if (!row.ours)
		return attach_queue(t.database, t.database_generation, row);
	if (find_row(t, row.queue_id, true, &before))
		return attach_queue(t.database, t.database_generation, before);
	reserve_created_effect();
	ref = attach_queue(t.database, t.database_generation, row);
	add_created_effect(ref);
	return ref;
}

/*
 * Attach the queue of a row that may have been deleted since it was read. A drop frees only a slot
 * that exists at its commit, so look for the row again after attaching
 * (protocol: attach-then-look). Returns false if the row is gone.
 */
static bool
attach_if_there(const Tables &t, const QueueRow &row, QueueRef *ref)
{
	QueueRow now;
	stop_point("queue-read");
	*ref = attach_row(t, row);
	stop_point("queue-attached");
	if (read_queue_row(t, row.name, &now) && now.queue_id == row.queue_id)
		return true;
	/* The row may still be there with another name: the queue was renamed. */
	if (find_row(t, row.queue_id, false, &now))
		return true;
	free_queue(*ref);
	return false;
}

/*
 * Find a queue whose name this session does not remember. If the row is deleted during the search,
 * another queue may have the name by now, so search again.
 */
static bool
find_queue_in_table(const Tables &t, const char *name, QueueRef *ref)
{
	QueueRow row;
	while (read_queue_row(t, name, &row))
	{
		if (attach_if_there(t, row, ref))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

bool
find_queue(const Tables &t, const char *name, QueueRef *ref)
{
	if (strlen(name) > kQueueNameMax)
		return false;
	bool found;
	auto *entry =
		static_cast<Remembered *>(hash_search(memory_of_names(), name, HASH_FIND, &found));
	if (found && entry->incarnation == t.queue && is_alive(entry->ref) &&
		!dropped_by_us(entry->ref) && has_name_of(entry->ref.queue, entry->namings))
	{
		*ref = entry->ref;
		return true;
	}
	if (!find_queue_in_table(t, name, ref))
		return false;
	/*
	 * Remember the name only if the slot has the same name. The names differ if this transaction
	 * has renamed the queue, or if the slot has not been updated yet.
	 */
	QueueName current;
	uint32 namings = read_name(ref->queue, &current);
	if (strcmp(current.text, name) != 0)
		return true;
	forget_names();
	entry = static_cast<Remembered *>(hash_search(memory_of_names(), name, HASH_ENTER, &found));
	entry->incarnation = t.queue;
	entry->ref = *ref;
	entry->namings = namings;
	return true;
}

void
forget_queue_name(const char *name)
{
	(void) hash_search(memory_of_names(), name, HASH_REMOVE, nullptr);
}

bool
attach_queue_by_id(const Tables &t, int32 queue_id, QueueRef *ref)
{
	QueueRow row;
	if (find_attached_queue(t.database, queue_id, ref))
		return true;
	return find_row(t, queue_id, false, &row) && attach_if_there(t, row, ref);
}

QueueRow *
read_queue_rows(const Tables &t, int *n, bool without_us)
{
	int room = 16;
	auto *rows = static_cast<QueueRow *>(palloc(room * sizeof(QueueRow)));
	*n = 0;
	(void) for_each_row(
		t,
		[&](const QueueRow &row) {
			if (*n == room)
				rows = static_cast<QueueRow *>(repalloc_huge(rows, (room *= 2) * sizeof(QueueRow)));
			rows[(*n)++] = row;
		},
		without_us);
	return rows;
}

/*
 * Return the most similar name of a queue that the caller may know, or nullptr. A name that differs
 * only in upper and lower case counts as the most similar one.
 */
static const char *
nearest_name(const Tables &t, const char *name)
{
	char *nearest = nullptr;
	int length = static_cast<int>(strlen(name));
	/* Allow at most three edits, and at most half as many as the name has characters. */
	int least = Min(3, length / 2) + 1;
	for_each_row(t, [&](const QueueRow &row) {
		int distance = pg_strcasecmp(name, row.name) == 0
						   ? 0
						   : varstr_levenshtein_less_equal(name, length, row.name, strlen(row.name),
														   1, 1, 1, least, true);
		if (distance >= least || !may_know(row.queue_id))
			return;
		least = distance;
		nearest = pstrdup(row.name);
	});
	return nearest;
}

static bool
is_among(const List *sorted, int number)
{
	const ListCell *first = list_head(sorted);
	return std::binary_search(
		first, first + list_length(sorted), ListCell{.int_value = number},
		[](const ListCell &a, const ListCell &b) { return a.int_value < b.int_value; });
}

/*
 * Give the queue of each row a slot, if it has none. Return whether some slots differ from their
 * rows. correct: if true, update or free such slots.
 */
static bool
compare_with_rows(const Tables &t, bool correct, Attached *attached)
{
	bool differ = false;
	List *rows = NIL;
	*attached = {};
	attached->unreadable = for_each_row(t, [&](const QueueRow &row) {
		/* If the row's queue has no slot, give it a slot. Then compare the slot with the row. */
		QueueRef ref;
		rows = lappend_int(rows, row.queue_id);
		attached->queues++;
		if (!try_attach_queue(t.database, t.database_generation, row, &ref))
			attached->left_out++;
		else if (!is_like(ref, row))
		{
			differ = true;
			if (correct)
				make_like(ref, row);
		}
	});
	list_sort(rows, list_int_cmp);
	/* Look for slots whose row was deleted by a user's SQL. */
	for_each_queue(t.database, [&](const QueueRef &ref) {
		if (is_among(rows, ref.queue_id))
			return;
		differ = true;
		if (correct)
			free_queue(ref);
	});
	list_free(rows);
	return differ;
}

Attached
attach_all_queues(const Tables &t)
{
	Attached attached;
	/* Correct slots only under ShareLock, which is not free while an open transaction has changed a row. */
	if (compare_with_rows(t, false, &attached) && ConditionalLockRelationOid(t.queue, ShareLock))
		compare_with_rows(t, true, &attached);
	return attached;
}

/*
 * Raise error 42704. If a queue has a similar name, the hint proposes this name, followed by the
 * text if_near. Otherwise the hint is the text `otherwise`; nullptr: no hint.
 */
[[noreturn]] static void
complain_unknown(const Tables &t, const char *name, const char *if_near, const char *otherwise)
{
	const char *nearest = nearest_name(t, name);
	if (nearest != nullptr)
		otherwise = psprintf("Perhaps you meant \"%s\".%s", nearest, if_near);
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("queue \"%s\" does not exist", name),
					otherwise != nullptr ? errhint("%s", otherwise) : 0));
}

QueueRef
resolve_queue(const Tables &t, const char *name, Permission permission)
{
	QueueRef ref;
	if (!find_queue(t, name, &ref))
		complain_unknown(
			t, name, " Use pgq_create_queue for a new queue.",
			psprintf("Create it with SELECT pgq_create_queue(%s).", quote_literal_cstr(name)));
	require_right(permission, ref.queue_id, name);
	return ref;
}

QueueRef
resolve_queue_to_empty(const Tables &t, const char *name, const char *hint)
{
	QueueRef ref;
	if (!find_queue(t, name, &ref))
		complain_unknown(t, name, "", hint);
	require_right(Permission::kAdminister, ref.queue_id, name);
	return ref;
}

} // namespace pgq
