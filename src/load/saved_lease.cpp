#include "load/saved_lease.h"

#include "catalog/column.h"
#include "catalog/queue_row.h"
#include "catalog/tables.h"
#include "pg/scope.h"
#include "rows/tuple.h"
#include "rows/write.h"

namespace pgq {

enum SavedColumn : AttrNumber
{
	kSavedMark = 1,
	kSavedJobId,
	kSavedLease,
	kSavedQueueId,
	kSavedAttempt,
	kSavedLoss,
	kSavedRemaining,
	kSavedClaimedAt,
	kSavedSegment,
	kSavedPlace,
	kSavedPreparedClaim,
	kSavedPreparedUse,
	kSavedPreparedEnd,
	kSavedPreparedDeath,
	kSavedWorker,
	kSavedLeaseTime, /* not in a table of version 0.1 */
	kSavedColumns = kSavedLeaseTime,
};
/* NULLs are looked for, in whatever column they are. */
static constexpr Column columns[kSavedColumns] = {
	{"mark", INT8OID, kOrNull},			 {"job_id", INT8OID, kOrNull},
	{"lease", INT8OID, kOrNull},		 {"queue_id", INT4OID, kOrNull},
	{"attempt", INT4OID, kOrNull},		 {"loss", INT2OID, kOrNull},
	{"remaining", INT8OID, kOrNull},	 {"claimed_at", TIMESTAMPTZOID, kOrNull},
	{"segment", INT2OID, kOrNull},		 {"place", TIDOID, kOrNull},
	{"prepared_claim", XIDOID, kOrNull}, {"prepared_use", XIDOID, kOrNull},
	{"prepared_end", INT2OID, kOrNull},	 {"prepared_death", BOOLOID, kOrNull},
	{"worker", TEXTOID, kOrNull},		 {"lease_time", INT8OID, kOrNull},
};

/* ---- rows ---- */

static bool
has_lease_time(TupleDesc desc)
{
	return desc->natts >= kSavedLeaseTime;
}

/* False: it has NULL where we write none. */
static bool
read_lease(HeapTuple tuple, TupleDesc desc, SavedLease *lease, int64 *mark)
{
	/* Columns that were dropped behind ours have a place, too. */
	Datum values[MaxHeapAttributeNumber];
	bool nulls[MaxHeapAttributeNumber];
	heap_deform_tuple(tuple, desc, values, nulls);
	for (int i = 0; i < kSavedWorker; i++)
		if (nulls[i] && i + 1 != kSavedPreparedEnd && i + 1 != kSavedLoss)
			return false;
	auto get = [&](SavedColumn column) { return values[column - 1]; };
	/* Whose it is, of which job, and where its row was. */
	*lease = {};
	*mark = DatumGetInt64(get(kSavedMark));
	lease->queue_id = DatumGetInt32(get(kSavedQueueId));
	lease->token = DatumGetInt64(get(kSavedLease));
	auto *place = reinterpret_cast<ItemPointer>(DatumGetPointer(get(kSavedPlace)));
	lease->hint.key.job_id = DatumGetInt64(get(kSavedJobId));
	lease->hint.place = {ItemPointerGetBlockNumberNoCheck(place),
						 ItemPointerGetOffsetNumberNoCheck(place),
						 static_cast<uint16>(DatumGetInt16(get(kSavedSegment)))};
	/* How far it has come. */
	lease->lost = !nulls[kSavedLoss - 1];
	if (lease->lost)
		lease->loss = static_cast<Loss>(DatumGetInt16(get(kSavedLoss)));
	lease->attempt = DatumGetInt32(get(kSavedAttempt));
	lease->remaining = DatumGetInt64(get(kSavedRemaining));
	lease->claimed_at = DatumGetTimestampTz(get(kSavedClaimedAt));
	/* What prepared transactions will do to it. */
	lease->prepared = {.claim_xid = DatumGetTransactionId(get(kSavedPreparedClaim)),
					   .use_xid = DatumGetTransactionId(get(kSavedPreparedUse)),
					   .ended = !nulls[kSavedPreparedEnd - 1],
					   .how = LeaseEnd::kAcked,
					   .dead = DatumGetBool(get(kSavedPreparedDeath))};
	if (lease->prepared.ended)
		lease->prepared.how = static_cast<LeaseEnd>(DatumGetInt16(get(kSavedPreparedEnd)));
	text_to_cstring_buffer(DatumGetTextPP(get(kSavedWorker)), lease->worker, sizeof(lease->worker));
	if (has_lease_time(desc) && !nulls[kSavedLeaseTime - 1])
		lease->lease_time = DatumGetInt64(get(kSavedLeaseTime));
	return true;
}

static HeapTuple
form_lease(TupleDesc desc, const SavedLease &lease, int64 mark)
{
	Datum values[MaxHeapAttributeNumber];
	bool nulls[MaxHeapAttributeNumber];
	for (int i = 0; i < MaxHeapAttributeNumber; i++)
		nulls[i] = i >= kSavedColumns;
	auto set = [&](SavedColumn column, Datum value) { values[column - 1] = value; };
	ItemPointerData place;
	ItemPointerSet(&place, lease.hint.place.block, lease.hint.place.offset);
	/* Whose it is, of which job, and how far it has come. */
	set(kSavedMark, Int64GetDatum(mark));
	set(kSavedJobId, Int64GetDatum(lease.hint.key.job_id));
	set(kSavedLease, Int64GetDatum(lease.token));
	set(kSavedQueueId, Int32GetDatum(lease.queue_id));
	set(kSavedAttempt, Int32GetDatum(lease.attempt));
	set(kSavedLoss, Int16GetDatum(static_cast<int16>(lease.loss)));
	nulls[kSavedLoss - 1] = !lease.lost;
	set(kSavedRemaining, Int64GetDatum(lease.remaining));
	set(kSavedClaimedAt, TimestampTzGetDatum(lease.claimed_at));
	set(kSavedSegment, Int16GetDatum(static_cast<int16>(lease.hint.place.segment)));
	set(kSavedPlace, PointerGetDatum(&place));
	/* What prepared transactions will do to it. */
	set(kSavedPreparedClaim, TransactionIdGetDatum(lease.prepared.claim_xid));
	set(kSavedPreparedUse, TransactionIdGetDatum(lease.prepared.use_xid));
	set(kSavedPreparedEnd, Int16GetDatum(static_cast<int16>(lease.prepared.how)));
	nulls[kSavedPreparedEnd - 1] = !lease.prepared.ended;
	set(kSavedPreparedDeath, BoolGetDatum(lease.prepared.dead));
	set(kSavedWorker, CStringGetTextDatum(lease.worker));
	/* What only a table of the present version has room for. */
	set(kSavedLeaseTime, Int64GetDatum(lease.lease_time));
	return heap_form_tuple(desc, values, nulls);
}

/* Visit the rows that are committed by now. */
template <typename Visit>
static void
for_each_saved(Relation rel, Visit visit)
{
	if (RelationGetNumberOfBlocks(rel) == 0)
		return;
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, nullptr);
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		SavedLease lease;
		int64 mark;
		bool readable = read_lease(tuple, RelationGetDescr(rel), &lease, &mark);
		visit(tuple, readable ? &lease : nullptr, mark);
		CHECK_FOR_INTERRUPTS();
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
}

static Relation
open_saved(const Tables &t, LOCKMODE mode)
{
	Relation rel = table_open(t.saved_lease, mode);
	check_columns(rel, columns,
				  has_lease_time(RelationGetDescr(rel)) ? kSavedColumns : kSavedWorker);
	return rel;
}

/* ---- restoring ---- */

enum class Outcome : uint8
{
	kOpen,
	kCommitted,
	kAborted,
	kForgotten, /* so long ago that the server does not know any more */
};

/* As txid_status() finds it out. No transaction: nothing is undone by it. */
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
 * Prepared transactions have used the lease, and may have ended since the start. False: so has the
 * lease, or nobody knows.
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

/* Fills in what the row says. */
static bool
has_its_row(SegmentSet &segments, SavedLease *lease)
{
	JobRow row;
	if (locate_job(segments, lease->hint.place, lease->hint.key.job_id, false, &row) !=
		WriteResult::kDone)
		return false;
	lease->hint = row.hint();
	lease->enqueued_at = DatumGetTimestampTz(row.value(kJobEnqueuedAt));
	/* Negative: the end of a lost one. */
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

SavedLeases
read_saved_leases(const Tables &t, int64 mark, const TransactionId *prepared, int n)
{
	SavedLeases saved = {};
	/* Without a look at their rows, or if these are a publisher's, none is restored. */
	if (!t.has_segments || OidIsValid(t.subscription))
		return saved;
	int room = 0;
	Relation rel = open_saved(t, AccessShareLock);
	for_each_saved(rel, [&](HeapTuple, const SavedLease *lease, int64 of) {
		if (lease == nullptr || of != mark)
			return;
		if (saved.n == room)
		{
			Size size = (room = Max(64, 2 * room)) * sizeof(SavedLease);
			saved.leases = static_cast<SavedLease *>(
				saved.leases == nullptr ? palloc(size) : repalloc_huge(saved.leases, size));
		}
		saved.leases[saved.n++] = *lease;
	});
	table_close(rel, AccessShareLock);
	if (saved.n > 0)
	{
		keep_valid(&saved, prepared, n);
		saved.queues = read_queue_rows(t, &saved.n_queues, true);
	}
	return saved;
}

/* Leases lie queue by queue: the last one found is looked at first. */
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
	int64 monotonic = monotonic_now();
	TimestampTz now = wall_now();
	int last = -1;
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
	if (saved->queues != nullptr)
		pfree(saved->queues);
	*saved = {};
}

/* ---- saving ---- */

bool
has_leases(const Database *db)
{
	bool any = false;
	for_each_queue(db, [&](const QueueRef &ref) { any |= has_leases(ref); });
	return any;
}

static int
copy_all(const Database *db, SavedLease *copies, int most)
{
	int64 monotonic = monotonic_now();
	int n = 0;
	for_each_queue(
		db, [&](const QueueRef &ref) { n += copy_leases(ref, copies + n, most - n, monotonic); });
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

/* A row that somebody has locked stays: it does no harm. */
static bool
try_delete(Relation rel, HeapTuple tuple)
{
	TM_FailureData failure;
	return heap_delete(rel, &tuple->t_self, GetCurrentCommandId(true), InvalidSnapshot, false,
					   &failure, false) == TM_Ok;
}

int
save_leases(const Database *db, int64 mark)
{
	Relation rel = open_saved(look_at_tables(), RowExclusiveLock);
	if (RelationGetIndexList(rel) != NIL)
	{
		ereport(LOG, (errmsg("leases are not saved: table \"pgq_ext.saved_lease\" has an index"),
					  errhint("Drop it.")));
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
