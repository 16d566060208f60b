#include "load/saved_lease.h"

#include "catalog/queue_row.h"
#include "catalog/shape.h"
#include "load/saved_row.h"
#include "pg/scope.h"
#include "rows/tuple.h"
#include "rows/write.h"

namespace pgq {

/* ---- restoring ---- */

namespace {

enum class Outcome : uint8
{
	kOpen,
	kCommitted,
	kAborted,
	kForgotten, /* so old that the server no longer knows its outcome */
};

} // namespace
/*
 * Return the outcome of the transaction, as txid_status() does. An invalid xid stands for no
 * transaction, and counts as committed: nothing was rolled back.
 */
static Outcome
outcome_of(TransactionId xid, const TransactionId *prepared, int n)
{
	if (!TransactionIdIsValid(xid))
		return Outcome::kCommitted;
	for (int i = 0; i < n; i++)
		if (prepared[i] == xid)
			return Outcome::kOpen;
	Outcome outcome = Outcome::kForgotten;
	LWLockAcquire(XactTruncationLock, LW_SHARED);
	if (TransactionIdPrecedes(xid, ReadNextTransactionId()) &&
		TransactionIdFollowsOrEquals(xid, oldest_known_xid()))
		outcome = TransactionIdDidCommit(xid) ? Outcome::kCommitted : Outcome::kAborted;
	LWLockRelease(XactTruncationLock);
	return outcome;
}

/*
 * Apply the outcomes of the prepared transactions that claimed or used a saved lease. Such a
 * transaction may have ended since the start of the server. Returns false if a commit of such a
 * transaction has ended the lease, or if an outcome is unknown.
 */
static bool
follow_prepared(SavedLease *lease, const TransactionId *prepared, int n)
{
	Prepared &will = lease->prepared;
	Outcome use = outcome_of(will.use_xid, prepared, n);
	Outcome claim = outcome_of(will.claim_xid, prepared, n);
	if (use == Outcome::kForgotten || claim == Outcome::kForgotten ||
		(use == Outcome::kCommitted && will.ended))
		return false;
	if (use != Outcome::kOpen)
		will = {.claim_xid = will.claim_xid};
	lease->lost |= claim == Outcome::kAborted;
	if (claim != Outcome::kOpen)
		will.claim_xid = InvalidTransactionId;
	return true;
}

/*
 * Return whether the row of the lease's job exists and does not show that this lease or a later one
 * has ended. Sets the lease's hint and enqueued_at from the row.
 */
static bool
has_its_row(SegmentSet &segments, SavedLease *lease)
{
	JobRow row;
	if (locate_job(segments, lease->hint.place, lease->hint.key.job_id, false, &row) !=
		WriteResult::kDone)
		return false;
	lease->hint = row.hint();
	lease->enqueued_at = DatumGetTimestampTz(row.value(kJobEnqueuedAt));
	/* A negative fence is the negated token of a lost lease whose attempt was counted. */
	int64 fence = row.is_null(kJobFence) ? 0 : DatumGetInt64(row.value(kJobFence));
	return Max(fence, -fence) < lease->token;
}

static void
keep_valid(SavedLeases *saved, const TransactionId *prepared, int n)
{
	SegmentSet segments(AccessShareLock);
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_ext saved leases", ALLOCSET_DEFAULT_SIZES);
	int kept = 0;
	(void) segments.open_all();
	for (int i = 0; i < saved->n; i++)
	{
		SavedLease lease = saved->leases[i];
		MemoryContext caller = MemoryContextSwitchTo(scratch);
		if (follow_prepared(&lease, prepared, n) && has_its_row(segments, &lease))
			saved->leases[kept++] = lease;
		MemoryContextSwitchTo(caller);
		MemoryContextReset(scratch);
	}
	segments.close();
	MemoryContextDelete(scratch);
	saved->n = kept;
}

template <typename T>
static void
append(T **items, int *n, int *room, const T &item)
{
	if (*n == *room)
	{
		Size size = (*room = Max(64, 2 * *room)) * sizeof(T);
		*items = static_cast<T *>(*items == nullptr ? palloc(size) : repalloc_huge(*items, size));
	}
	(*items)[(*n)++] = item;
}

/* Compare two SavedStarts by queue, then by group, then by time. */
static int
compare_starts(const void *a, const void *b)
{
	const auto *x = static_cast<const SavedStarts *>(a);
	const auto *y = static_cast<const SavedStarts *>(b);
	if (x->queue_id != y->queue_id)
		return x->queue_id < y->queue_id ? -1 : 1;
	if (x->of != y->of)
		return x->of < y->of ? -1 : 1;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return x->age > y->age ? -1 : x->age < y->age;
}

static void
read_records(const Tables &t, int64 mark, SavedLeases *saved)
{
	int room = 0;
	int room_for_starts = 0;
	int room_for_rates = 0;
	Relation rel = open_saved(t, AccessShareLock);
	for_each_saved(rel, [&](HeapTuple, const SavedLease *row, int64 of) {
		if (row == nullptr || of != mark)
			return;
		SavedKind kind = kind_of(*row);
		if (kind == SavedKind::kLease)
			append(&saved->leases, &saved->n, &room, *row);
		if (kind == SavedKind::kStarts)
			append(&saved->starts, &saved->n_starts, &room_for_starts, starts_of(*row));
		if (kind == SavedKind::kRate)
			append(&saved->rates, &saved->n_rates, &room_for_rates, rate_of(*row));
	});
	table_close(rel, AccessShareLock);
}

SavedLeases
read_saved_leases(const Tables &t, int64 mark, const TransactionId *prepared, int n)
{
	SavedLeases saved = {};
	/*
	 * Restore nothing if a subscription brings the jobs. Restore no leases and no starts if the
	 * segments are missing, since the rows of the jobs cannot be checked.
	 */
	if (OidIsValid(t.subscription))
		return saved;
	read_records(t, mark, &saved);
	if (!has_whole_segments())
		saved.n = saved.n_starts = 0;
	if (saved.n_starts > 0)
		qsort(saved.starts, saved.n_starts, sizeof(SavedStarts), compare_starts);
	if (saved.n > 0)
		keep_valid(&saved, prepared, n);
	if (saved.n > 0 || saved.n_starts > 0)
		saved.queues = read_queue_rows(t, &saved.n_queues, true);
	return saved;
}

/*
 * Make sure that the queue of a saved lease, or of saved starts, has a slot in shared memory.
 * Leases are sorted by queue, so the queue is most often the queue of the previous lease. Returns
 * false if the queue does not exist any more, or if no slot is free.
 */
static bool
attach_queue_of(Database *db, const SavedLeases *saved, int32 queue_id, int *last, QueueRef *ref)
{
	if (*last < 0 || saved->queues[*last].queue_id != queue_id)
	{
		*last = saved->n_queues - 1;
		while (*last >= 0 && saved->queues[*last].queue_id != queue_id)
			(*last)--;
	}
	return *last >= 0 &&
		   try_attach_queue(db, pg_atomic_read_u32(&db->generation), saved->queues[*last], ref);
}

void
restore_leases(Database *db, const SavedLeases *saved)
{
	restore_rates(db, saved->rates, saved->n_rates);
	int64 monotonic = monotonic_now();
	TimestampTz now = wall_now();
	int last = -1;
	for (int i = 0; i < saved->n_starts; i++)
	{
		QueueRef ref;
		if (attach_queue_of(db, saved, saved->starts[i].queue_id, &last, &ref))
			restore_starts(ref, saved->starts[i], monotonic);
	}
	last = -1;
	for (int i = 0; i < saved->n; i++)
	{
		QueueRef ref;
		if (attach_queue_of(db, saved, saved->leases[i].queue_id, &last, &ref))
			(void) restore_lease(ref, saved->leases[i], monotonic, now);
	}
}

void
free_saved_leases(SavedLeases *saved)
{
	if (saved->leases != nullptr)
		pfree(saved->leases);
	if (saved->starts != nullptr)
		pfree(saved->starts);
	if (saved->rates != nullptr)
		pfree(saved->rates);
	if (saved->queues != nullptr)
		pfree(saved->queues);
	*saved = {};
}

/* ---- saving ---- */

bool
has_what_is_saved(const Database *db)
{
	bool any = room_for_rates(db) > 0;
	for_each_queue(
		db, [&](const QueueRef &ref) { any = any || has_leases(ref) || room_for_starts(ref) > 0; });
	return any;
}

static int
copy_all(const Database *db, SavedLease *copies, int most)
{
	int64 monotonic = monotonic_now();
	int n = 0;
	for_each_queue(db, [&](const QueueRef &ref) {
		n += copy_leases_to_save(ref, copies + n, most - n, monotonic);
	});
	return n;
}

static void
write_leases(Relation rel, const SavedLease *leases, int n, int64 mark)
{
	static constexpr int kAtOnce = 256;
	HeapTuple tuples[kAtOnce];
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_ext saved leases", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	for (int i = 0; i < n; i += kAtOnce)
	{
		int many = Min(kAtOnce, n - i);
		for (int k = 0; k < many; k++)
			tuples[k] = form_lease(RelationGetDescr(rel), leases[i + k], mark);
		insert_tuples(rel, tuples, many);
		MemoryContextReset(scratch);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
}

/*
 * Write a row into the table for each item that copy(items, most) gives: copy() stores at most
 * `most` items in `items`, and returns their number.
 */
template <typename Item, typename Copy>
static void
write_copies(Relation rel, int64 mark, int most, Copy copy)
{
	if (most == 0)
		return;
	auto *items =
		static_cast<Item *>(MemoryContextAllocHuge(CurrentMemoryContext, most * sizeof(Item)));
	int copied = copy(items, most);
	auto *rows = static_cast<SavedLease *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (copied + 1) * sizeof(SavedLease)));
	for (int i = 0; i < copied; i++)
		rows[i] = row_of(items[i]);
	write_leases(rel, rows, copied, mark);
	pfree(rows);
	pfree(items);
}

static void
write_starts_and_rates(Relation rel, const Database *db, int64 mark)
{
	int64 monotonic = monotonic_now();
	for_each_queue(db, [&](const QueueRef &ref) {
		write_copies<SavedStarts>(rel, mark, room_for_starts(ref),
								  [&](SavedStarts *starts, int most) {
									  return copy_starts(ref, starts, most, monotonic);
								  });
	});
	write_copies<SavedRate>(rel, mark, room_for_rates(db), [&](SavedRate *rates, int most) {
		return save_rates(db, rates, most);
	});
}

/*
 * Delete a saved row. If another transaction has locked the row, leave the row and return false;
 * the row is void in any case.
 */
static bool
try_delete(Relation rel, HeapTuple tuple)
{
	TM_FailureData failure;
	return delete_row(rel, &tuple->t_self, false, &failure, false) == TM_Ok;
}

int
save_leases(const Database *db, int64 mark, bool alone)
{
	Relation rel = open_saved(look_at_tables(), RowExclusiveLock);
	if (RelationGetIndexList(rel) != NIL)
	{
		ereport(LOG, (errmsg("leases are not saved: table \"pgq_ext.saved_lease\" has an index"),
					  errhint("Drop the index.")));
		table_close(rel, NoLock);
		return 0;
	}
	int most = static_cast<int>(pg_atomic_read_u32(&shared->leases));
	auto *copies = static_cast<SavedLease *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (most + 1) * sizeof(SavedLease)));
	int n = copy_all(db, copies, most);
	for_each_saved(
		rel, [&](HeapTuple tuple, const SavedLease *, int64) { (void) try_delete(rel, tuple); });
	write_leases(rel, copies, n, mark);
	if (alone)
		write_starts_and_rates(rel, db, mark);
	table_close(rel, NoLock);
	pfree(copies);
	return n;
}

bool
delete_void_leases(int64 mark)
{
	bool left = false;
	Relation rel = open_saved(look_at_tables(), RowExclusiveLock);
	for_each_saved(rel, [&](HeapTuple tuple, const SavedLease *lease, int64 of) {
		left |= (lease != nullptr && of == mark) || !try_delete(rel, tuple);
	});
	table_close(rel, NoLock);
	return !left;
}

} // namespace pgq
