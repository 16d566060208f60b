#include "rows/dead_job.h"

#include "rows/index.h"
#include "rows/tuple.h"

namespace pgq {

/* The version that a delete would take. False: there is none. */
static bool
find_dead_job(Relation rel, Oid by_id, int64 job_id, ItemPointerData *tid)
{
	bool found = false;
	IndexLookup *lookup = begin_index_lookup(rel, by_id, job_id);
	while (!found && next_version(lookup))
	{
		TransactionId dead_after;
		HTSV_Result state =
			HeapTupleSatisfiesVacuumHorizon(lookup->tuple, lookup->buffer, &dead_after);
		found =
			state == HEAPTUPLE_LIVE || (state == HEAPTUPLE_DELETE_IN_PROGRESS &&
										!TransactionIdIsCurrentTransactionId(
											HeapTupleHeaderGetUpdateXid(lookup->tuple->t_data)));
		*tid = lookup->tuple->t_self;
		unlock_version(lookup);
	}
	end_index_lookup(lookup);
	return found;
}

void
remove_dead_job(int64 job_id, bool wait)
{
	for (const Segment &segment : look_at_tables().segments(kDeadRing))
	{
		Relation rel = table_open(segment.heap, RowExclusiveLock);
		ItemPointerData tid;
		bool done = RelationGetNumberOfBlocks(rel) == 0;
		while (!done && find_dead_job(rel, segment.index[kById], job_id, &tid))
		{
			TM_FailureData failure;
			TM_Result result = heap_delete(rel, &tid, GetCurrentCommandId(true), InvalidSnapshot,
										   wait, &failure, false);
			if (result == TM_BeingModified)
				ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
								errmsg("an older dead letter of job %lld is locked",
									   static_cast<long long>(job_id))));
			done = result == TM_Ok;
			CHECK_FOR_INTERRUPTS();
		}
		table_close(rel, NoLock);
	}
}

void
insert_dead_job(const JobRow &row, int32 attempts, int64 fence, const char *reason, bool has_error,
				Datum error)
{
	const Segment &segment = look_at_tables().current(kDeadRing);
	Relation rel = table_open(segment.heap, RowExclusiveLock);
	Datum values[kDeadColumns] = {};
	bool nulls[kDeadColumns];
	memset(nulls, true, sizeof(nulls));
	auto set = [&](DeadColumn column, Datum value) {
		values[column - 1] = value;
		nulls[column - 1] = false;
	};
	auto copy = [&](DeadColumn to, JobColumn from, bool varlena) {
		if (!row.is_null(from))
			/* A toasted value belongs to the row that is deleted. */
			set(to, varlena ? PointerGetDatum(PG_DETOAST_DATUM_COPY(row.value(from)))
							: row.value(from));
	};
	copy(kDeadJobId, kJobId, false);
	copy(kDeadQueueId, kJobQueueId, false);
	set(kDeadAt, TimestampTzGetDatum(wall_now()));
	copy(kDeadEnqueuedAt, kJobEnqueuedAt, false);
	copy(kDeadRunAt, kJobRunAt, false);
	copy(kDeadPriority, kJobPriority, false);
	set(kDeadAttempts, Int32GetDatum(attempts));
	set(kDeadSegment, Int16GetDatum(static_cast<int16>(segment.number)));
	set(kDeadFence, Int64GetDatum(fence));
	copy(kDeadMaxAttempts, kJobMaxAttempts, false);
	copy(kDeadGroupKey, kJobGroupKey, true);
	copy(kDeadUniqueKey, kJobUniqueKey, true);
	set(kDeadReason, CStringGetTextDatum(reason));
	if (has_error)
		set(kDeadLastError, error);
	copy(kDeadHeaders, kJobHeaders, true);
	copy(kDeadPayload, kJobPayload, true);

	HeapTuple tuple = TupleFormer(rel).form(values, nulls, kDeadColumns);
	heap_insert(rel, tuple, GetCurrentCommandId(true), 0, nullptr);
	insert_index_entries(rel, tuple);
	table_close(rel, NoLock);
}

} // namespace pgq
