#include "store/queue_store.h"

#include "pg/scope.h"
#include "store/tables.h"

namespace pgq {

/* Columns of pgq_ext.queue that the engine reads, in their order. */
enum QueueColumn : AttrNumber
{
	kQueueId = 1,
	kQueueName,
	kQueueLeaseTime,
	kQueueMaxRuntime,
	kQueueMaxAttempts,
	kQueueBackoffBase,
	kQueueBackoffMax,
	kQueueBackoffJitter,
	kQueueKeepDead,
	kQueueNotify,
	kQueuePaused,
};

struct Remembered
{
	char name[kQueueNameMax + 1]; /* key */
	Oid incarnation;
	QueueRef ref;
};

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

static int64
interval_microseconds(Datum value)
{
	const Interval *interval = DatumGetIntervalP(value);
	return interval->time +
		   (interval->day + static_cast<int64>(interval->month) * DAYS_PER_MONTH) * USECS_PER_DAY;
}

static QueueRow
read_row(Relation rel, HeapTuple tuple)
{
	QueueRow row{};
	auto get = [&](AttrNumber column) {
		bool is_null;
		return heap_getattr(tuple, column, RelationGetDescr(rel), &is_null);
	};
	row.queue_id = DatumGetInt32(get(kQueueId));
	text_to_cstring_buffer(DatumGetTextPP(get(kQueueName)), row.name, sizeof(row.name));
	row.options.lease_time = interval_microseconds(get(kQueueLeaseTime));
	row.options.max_runtime = interval_microseconds(get(kQueueMaxRuntime));
	row.options.max_attempts = DatumGetInt32(get(kQueueMaxAttempts));
	row.options.backoff.base = interval_microseconds(get(kQueueBackoffBase));
	row.options.backoff.max = interval_microseconds(get(kQueueBackoffMax));
	row.options.backoff.jitter = DatumGetFloat8(get(kQueueBackoffJitter));
	row.options.notify = DatumGetBool(get(kQueueNotify));
	row.options.paused = DatumGetBool(get(kQueuePaused));
	return row;
}

static bool
find_row(const Tables &t, const char *name, QueueRow *row)
{
	ScanKeyData key;
	ScanKeyInit(&key, kQueueName, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(name));
	key.sk_collation = C_COLLATION_OID;
	Relation rel = table_open(t.queue, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, t.queue_by_name, true, snapshot, 1, &key);
	HeapTuple tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		*row = read_row(rel, tuple);
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return HeapTupleIsValid(tuple);
}

/* Our own uncommitted drop; its row is gone for us already. */
static bool
dropped_by_us(const QueueRef &ref)
{
	return ref.queue->dropping && VirtualTransactionIdEquals(ref.queue->dropper, my_virtual_xid());
}

bool
find_queue(const char *name, QueueRef *ref)
{
	const Tables &t = tables();
	if (strlen(name) > kQueueNameMax)
		return false;
	bool found;
	auto *entry =
		static_cast<Remembered *>(hash_search(memory_of_names(), name, HASH_FIND, &found));
	if (found && entry->incarnation == t.queue && is_alive(entry->ref) &&
		!dropped_by_us(entry->ref))
	{
		*ref = entry->ref;
		return true;
	}
	QueueRow row;
	if (!find_row(t, name, &row))
		return false;
	*ref = attach_queue(t.database, t.database_generation, row);
	entry = static_cast<Remembered *>(hash_search(memory_of_names(), name, HASH_ENTER, &found));
	entry->incarnation = t.queue;
	entry->ref = *ref;
	return true;
}

/* Visit every row of pgq_ext.queue that is committed by now, or our own. */
template <typename Visit>
static void
for_each_row(const Tables &t, Visit visit)
{
	Relation rel = table_open(t.queue, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, nullptr);
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		visit(read_row(rel, tuple));
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
}

/* The name that looks most like it, or NULL. */
static const char *
nearest_name(const char *name)
{
	char *nearest = nullptr;
	int length = static_cast<int>(strlen(name));
	/* As the parser does for columns: at most three edits, and not more than half of the name. */
	int least = Min(3, length / 2) + 1;
	for_each_row(tables(), [&](const QueueRow &row) {
		int distance = varstr_levenshtein_less_equal(name, length, row.name, strlen(row.name), 1, 1,
													 1, least, true);
		if (distance >= least)
			return;
		least = distance;
		nearest = pstrdup(row.name);
	});
	return nearest;
}

/* Attach the queues of all rows. Returns whether slots differ from their rows; if correct, they did. */
static bool
compare_with_rows(const Tables &t, bool correct, int *left_out)
{
	bool differ = false;
	List *rows = NIL;
	*left_out = 0;
	for_each_row(t, [&](const QueueRow &row) {
		QueueRef ref;
		rows = lappend_int(rows, row.queue_id);
		if (!try_attach_queue(t.database, t.database_generation, row, &ref))
			(*left_out)++;
		else if (!is_like(ref, row))
		{
			differ = true;
			if (correct)
				make_like(ref, row);
		}
	});
	for_each_queue(t.database, [&](const QueueRef &ref) {
		if (list_member_int(rows, ref.queue_id))
			return;
		differ = true;
		if (correct)
			free_queue(ref);
	});
	list_free(rows);
	return differ;
}

int
attach_all_queues()
{
	const Tables &t = tables();
	int left_out;
	/* With this lock nobody has changed a row and not applied that to its slot yet. */
	if (compare_with_rows(t, false, &left_out) && ConditionalLockRelationOid(t.queue, ShareLock))
		compare_with_rows(t, true, &left_out);
	return left_out;
}

QueueRef
resolve_queue(const char *name)
{
	QueueRef ref;
	if (find_queue(name, &ref))
		return ref;
	const char *nearest = nearest_name(name);
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("queue \"%s\" does not exist", name),
			 nearest ? errhint("Perhaps you meant \"%s\". A new queue is made by pgq_create_queue.",
							   nearest)
					 : errhint("Create it with SELECT pgq_create_queue(%s).",
							   quote_literal_cstr(name))));
}

} // namespace pgq
