#include "load/saved_row.h"

#include "catalog/column.h"

namespace pgq {

namespace {

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
	kSavedLeaseTime, /* missing in a table of version 0.1 */
	kSavedColumns = kSavedLeaseTime,
};

} // namespace
/*
 * Any column may be NULL in a stored row. read_lease() returns false for a row that lacks a value
 * which a lease needs.
 */
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

static bool
has_lease_time(TupleDesc desc)
{
	return desc->natts >= kSavedLeaseTime;
}

bool
read_lease(HeapTuple tuple, TupleDesc desc, SavedLease *lease, int64 *mark)
{
	/* The table can have more columns than the library knows: dropped columns keep their places. */
	Datum values[MaxHeapAttributeNumber];
	bool nulls[MaxHeapAttributeNumber];
	heap_deform_tuple(tuple, desc, values, nulls);
	for (int i = 0; i < kSavedWorker; i++)
		if (nulls[i] && i + 1 != kSavedPreparedEnd && i + 1 != kSavedLoss)
			return false;
	auto get = [&](SavedColumn column) { return values[column - 1]; };
	/* Read the lease, its job, and the place of the row. */
	*lease = {};
	*mark = DatumGetInt64(get(kSavedMark));
	lease->queue_id = DatumGetInt32(get(kSavedQueueId));
	lease->token = DatumGetInt64(get(kSavedLease));
	auto *place = reinterpret_cast<ItemPointer>(DatumGetPointer(get(kSavedPlace)));
	lease->hint.key.job_id = DatumGetInt64(get(kSavedJobId));
	lease->hint.place = {ItemPointerGetBlockNumberNoCheck(place),
						 ItemPointerGetOffsetNumberNoCheck(place),
						 static_cast<uint16>(DatumGetInt16(get(kSavedSegment)))};
	/* Read the state of the lease. */
	lease->lost = !nulls[kSavedLoss - 1];
	if (lease->lost)
		lease->loss = static_cast<Loss>(DatumGetInt16(get(kSavedLoss)));
	lease->attempt = DatumGetInt32(get(kSavedAttempt));
	lease->remaining = DatumGetInt64(get(kSavedRemaining));
	lease->claimed_at = DatumGetTimestampTz(get(kSavedClaimedAt));
	/* Read what prepared transactions will do to the lease. */
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

HeapTuple
form_lease(TupleDesc desc, const SavedLease &lease, int64 mark)
{
	Datum values[MaxHeapAttributeNumber];
	bool nulls[MaxHeapAttributeNumber];
	for (int i = 0; i < MaxHeapAttributeNumber; i++)
		nulls[i] = i >= kSavedColumns;
	auto set = [&](SavedColumn column, Datum value) { values[column - 1] = value; };
	ItemPointerData place;
	ItemPointerSet(&place, lease.hint.place.block, lease.hint.place.offset);
	/* Store the lease, its job, and its state. */
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
	/* Store what prepared transactions will do to the lease. */
	set(kSavedPreparedClaim, TransactionIdGetDatum(lease.prepared.claim_xid));
	set(kSavedPreparedUse, TransactionIdGetDatum(lease.prepared.use_xid));
	set(kSavedPreparedEnd, Int16GetDatum(static_cast<int16>(lease.prepared.how)));
	nulls[kSavedPreparedEnd - 1] = !lease.prepared.ended;
	set(kSavedPreparedDeath, BoolGetDatum(lease.prepared.dead));
	set(kSavedWorker, CStringGetTextDatum(lease.worker));
	/* Store the length of the lease: version 0.1 has no column for it. */
	set(kSavedLeaseTime, Int64GetDatum(lease.lease_time));
	return heap_form_tuple(desc, values, nulls);
}

/* ---- starts and rates ---- */

/*
 * The job_id of a row of starts or of a rate; no job has this id. Such a row also says that the
 * lease has ended by a committed transaction. So code that reads the row as a lease, as version 0.1
 * does, ignores it.
 */
static constexpr int64 kNoJob = 0;

/*
 * Value of the column "segment" in a row of a rate. In a row of starts, the column has a StartsOf.
 */
static constexpr uint16 kOfRate = 100;

static SavedLease
row_of_no_job(uint16 of)
{
	SavedLease row = {};
	row.hint.key.job_id = kNoJob;
	row.prepared.ended = true;
	row.hint.place.segment = of;
	row.hint.place.block = GetWALInsertionTimeLine();
	return row;
}

SavedKind
kind_of(const SavedLease &row)
{
	if (row.hint.key.job_id != kNoJob)
		return SavedKind::kLease;
	if (row.hint.place.block != GetWALInsertionTimeLine())
		return SavedKind::kVoid;
	return row.hint.place.segment == kOfRate ? SavedKind::kRate : SavedKind::kStarts;
}

SavedLease
row_of(const SavedStarts &starts)
{
	SavedLease row = row_of_no_job(static_cast<uint16>(starts.of));
	row.queue_id = starts.queue_id;
	row.token = starts.group;
	row.attempt = starts.n;
	row.remaining = starts.age;
	return row;
}

SavedStarts
starts_of(const SavedLease &row)
{
	return {.queue_id = row.queue_id,
			.of = static_cast<StartsOf>(row.hint.place.segment),
			.group = row.token,
			.age = Max(0, row.remaining),
			.n = row.attempt};
}

static_assert(sizeof(SavedLease::worker) >= sizeof(SavedRate::name));

SavedLease
row_of(const SavedRate &rate)
{
	SavedLease row = row_of_no_job(kOfRate);
	row.token = rate.interval;
	row.attempt = rate.burst;
	row.remaining = rate.remaining;
	strlcpy(row.worker, rate.name, sizeof(row.worker));
	return row;
}

SavedRate
rate_of(const SavedLease &row)
{
	SavedRate rate = {.interval = row.token, .burst = row.attempt, .remaining = row.remaining};
	strlcpy(rate.name, row.worker, sizeof(rate.name));
	return rate;
}

/* ---- the table ---- */

Relation
open_saved(const Tables &t, LOCKMODE mode)
{
	Relation rel = table_open(t.saved_lease(), mode);
	check_columns(rel, columns,
				  has_lease_time(RelationGetDescr(rel)) ? kSavedColumns : kSavedWorker);
	return rel;
}

} // namespace pgq
