#include "rows/dead_job.h"

#include "rows/index.h"

namespace pgq {

/* The version that a delete would take. False: there is none. */
static bool
find_dead_job(Relation rel, Oid by_id, int64 job_id, ItemPointerData *tid, int32 *queue_id)
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
		bool is_null;
		*queue_id = DatumGetInt32(
			heap_getattr(lookup->tuple, kDeadQueueId, RelationGetDescr(rel), &is_null));
		unlock_version(lookup);
	}
	end_index_lookup(lookup);
	return found;
}

bool
remove_dead_job(int64 job_id, bool wait, int32 *queue_id)
{
	/* Segment after segment: find one, delete it, and look again if somebody was faster. */
	bool removed = false;
	for (const Segment &segment : look_at_tables().segments(kDeadRing))
	{
		if (removed)
			break;
		Relation rel = table_open(segment.heap, RowExclusiveLock);
		ItemPointerData tid;
		bool bare = RelationGetNumberOfBlocks(rel) == 0;
		/* What is known of its indexes now that it is locked. */
		Oid by_id = look_at_tables().get(segment.number).index[kById];
		while (!bare && !removed && find_dead_job(rel, by_id, job_id, &tid, queue_id))
		{
			TM_FailureData failure;
			TM_Result result = heap_delete(rel, &tid, GetCurrentCommandId(true), InvalidSnapshot,
										   wait, &failure, false);
			if (result == TM_BeingModified)
				ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
								errmsg("an older dead letter of job %lld is locked",
									   static_cast<long long>(job_id))));
			removed = result == TM_Ok;
			CHECK_FOR_INTERRUPTS();
		}
		table_close(rel, NoLock);
	}
	return removed;
}

void
add_dead_job(Records &records, const JobRow &row, int32 attempts, int64 fence, const char *reason,
			 bool has_error, Datum error)
{
	records.add(kDeadRing, kDeadSegment, [&](NewRecord<DeadColumn> &record) {
		record.copy(kDeadJobId, row, kJobId);
		record.copy(kDeadQueueId, row, kJobQueueId);
		record.set(kDeadAt, TimestampTzGetDatum(wall_now()));
		record.copy(kDeadEnqueuedAt, row, kJobEnqueuedAt);
		record.copy(kDeadRunAt, row, kJobRunAt);
		record.copy(kDeadPriority, row, kJobPriority);
		record.set(kDeadAttempts, Int32GetDatum(attempts));
		record.set(kDeadFence, Int64GetDatum(fence));
		record.copy(kDeadMaxAttempts, row, kJobMaxAttempts);
		record.copy(kDeadGroupKey, row, kJobGroupKey);
		record.copy(kDeadUniqueKey, row, kJobUniqueKey);
		record.set_text(kDeadReason, reason);
		if (has_error)
			record.set(kDeadLastError, error);
		record.copy(kDeadHeaders, row, kJobHeaders);
		record.copy(kDeadPayload, row, kJobPayload);
	});
}

} // namespace pgq
