#include "rows/dead_job.h"

#include "catalog/shape.h"
#include "rows/index.h"
#include "rows/visibility.h"

namespace pgq {

/*
 * Return whether a delete would find this version of a dead letter: it is live, or another
 * transaction is deleting it.
 */
static bool
would_be_deleted(HeapTuple tuple, Buffer buffer)
{
	TransactionId dead_after;
	HTSV_Result state = HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after);
	return state == HEAPTUPLE_LIVE ||
		   (state == HEAPTUPLE_DELETE_IN_PROGRESS &&
			!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(tuple->t_data)));
}

/*
 * Delete the version that the lookup has found. Its page stays pinned until the delete
 * (protocol: pin-then-write). Returns false if another transaction has deleted or replaced the
 * version first, and adds the xid of that transaction to *moved: in the next pass, trace_of() of
 * the dead version will return the same xid.
 */
static bool
delete_version(Relation rel, IndexLookup *lookup, int64 job_id, bool wait, uint64 *moved)
{
	TM_FailureData failure;
	ItemPointerData tid = lookup->tuple->t_self;
	TM_Result result = delete_row(rel, &tid, wait, &failure, false);
	if (result == TM_BeingModified)
		ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
						errmsg("an older dead letter of job %lld is locked by another transaction",
							   static_cast<long long>(job_id))));
	*moved += result == TM_Ok ? 0 : failure.xmax;
	return result == TM_Ok;
}

/*
 * Delete the dead letter of the job in this segment. Returns whether the segment had the dead
 * letter. The traces of dead versions (trace_of()) are added to *moved.
 */
static bool
remove_from_segment(const Segment &segment, int64 job_id, bool wait, RemovedLetter *letter,
					uint64 *moved)
{
	bool removed = false;
	Relation rel = open_segment(segment, RowExclusiveLock);
	if (RelationGetNumberOfBlocks(rel) > 0)
	{
		Oid by_id = shape_of(rel, segment.number).index[kById];
		IndexLookup *lookup = begin_index_lookup(rel, by_id, job_id);
		while (!removed && next_version(lookup))
		{
			bool is_null;
			bool there = would_be_deleted(lookup->tuple, lookup->buffer);
			*moved += there ? 0 : trace_of(lookup->tuple);
			TupleDesc desc = RelationGetDescr(rel);
			letter->queue_id =
				DatumGetInt32(heap_getattr(lookup->tuple, kDeadQueueId, desc, &is_null));
			letter->batch_id = batch_in(lookup->tuple, desc, kDeadBatch);
			unlock_version(lookup);
			removed = there && delete_version(rel, lookup, job_id, wait, moved);
			CHECK_FOR_INTERRUPTS();
		}
		end_index_lookup(lookup);
	}
	table_close(rel, NoLock);
	return removed;
}

bool
remove_dead_job(int64 job_id, bool wait, RemovedLetter *removed)
{
	/*
	 * Rotation may move the row to a segment that was already searched. Repeat the search until two
	 * passes in a row have the same sum of traces.
	 */
	for (uint64 before = 0;;)
	{
		uint64 moved = 0;
		for (const Segment &segment : look_at_tables().segments(kDeadRing))
			if (remove_from_segment(segment, job_id, wait, removed, &moved))
				return true;
		if (moved == before)
			return false;
		before = moved;
	}
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
		record.copy(kDeadBatch, row, kJobBatch);
		record.copy(kDeadParents, row, kJobParents);
	});
}

} // namespace pgq
