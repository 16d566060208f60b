#include "steps/end_row.h"

#include "catalog/own_object.h"
#include "catalog/owner_sql.h"
#include "catalog/queue_lock.h"
#include "engine/child_watch.h"
#include "engine/hold.h"
#include "rows/dead_job.h"
#include "rows/deleted_member.h"
#include "rows/finished_job.h"
#include "steps/depth.h"
#include "steps/member_end.h"
#include "steps/parent_end.h"
#include "txn/effects.h"

namespace pgq {

static WriteResult
bury(SegmentSet &segments, const QueueRef &ref, const Place &place, int64 job_id,
	 const Death &death, bool wait, SchedulingColumns *was)
{
	JobRow row;
	WriteResult result = delete_judged(segments, place, job_id, wait, &row, was);
	if (result != WriteResult::kDone)
		return result;
	RemovedLetter earlier;
	while (remove_dead_job(job_id, wait, &earlier))
	{
		note_dead_letter_of(ref, earlier.queue_id, -1);
		segments.unpin();
		note_member_ended(earlier.batch_id, job_id, Note::kDeadLetterDeleted);
	}
	Records records;
	add_dead_job(records, row, death.attempts, death.fence, death.reason, death.has_error,
				 death.error);
	records.write();
	note_dead_letter_of(ref, was->queue_id, 1);
	return result;
}

bool
queue_keeps_finished(const QueueRef &ref)
{
	bool keeps = false;
	(void) look_at_queue(ref, [&](const Queue &queue) { keeps = keeps_finished(queue.options); });
	return keeps;
}

static const char *
outcome_of(RowEnd why)
{
	switch (why)
	{
		case RowEnd::kAcked:
			return "acked";
		case RowEnd::kDead:
			return "dead";
		case RowEnd::kCancelled:
			return "cancelled";
		case RowEnd::kExpired:
			break;
	}
	return "expired";
}

/* Return the note of an end that is no ack. */
static Note
note_of(RowEnd why)
{
	switch (why)
	{
		case RowEnd::kDead:
			return Note::kDead;
		case RowEnd::kCancelled:
			return Note::kCancelled;
		default:
			return Note::kExpired;
	}
}

static WriteResult
archive(SegmentSet &segments, const Place &place, int64 job_id, RowEnd why, const Finish &finish,
		bool wait, SchedulingColumns *was, JobRow *deleted)
{
	WriteResult result;
	JobRow row;
	/* The row is needed until the record is written. A caller that wants the row keeps it longer. */
	if (deleted != nullptr)
		result = delete_job(segments, place, job_id, wait, deleted, was);
	else
		finish.records->with_memory(
			[&] { result = delete_job(segments, place, job_id, wait, &row, was); });
	if (result == WriteResult::kDone)
		add_finished_job(*finish.records, deleted != nullptr ? *deleted : row, outcome_of(why),
						 finish.worker, finish.result);
	return result;
}

static WriteResult
end_in_its_way(SegmentSet &segments, const QueueRef &ref, const Place &place, int64 job_id,
			   RowEnd why, const Death *death, bool wait, const Finish *finish,
			   SchedulingColumns *was, JobRow *deleted)
{
	if (why == RowEnd::kDead)
		return bury(segments, ref, place, job_id, *death, wait, was);
	if (finish != nullptr)
		return archive(segments, place, job_id, why, *finish, wait, was, deleted);
	return delete_job(segments, place, job_id, wait, deleted, was);
}

/*
 * Note the end of a member. Release the pin that `segments` keeps before a note is written, since
 * the write may wait for a lock of the table of notes.
 */
static void
leave_batch(SegmentSet &segments, int64 batch_id, int64 job_id, RowEnd why)
{
	if (why == RowEnd::kAcked)
		return note_member_acked(batch_id, job_id);
	segments.unpin();
	note_member_ended(batch_id, job_id, note_of(why));
}

/*
 * Do what the end of the row means for the children of the job. In most databases no job has
 * children. Release the pin that `segments` keeps first, since writing an outcome may wait for a
 * lock.
 */
static void
leave_children(SegmentSet &segments, int64 job_id, int32 queue_id, RowEnd why, const Datum *result)
{
	const Database *db = look_at_tables().database;
	if (db != nullptr && !may_have_children(db))
		return;
	segments.unpin();
	switch (why)
	{
		case RowEnd::kAcked:
			return note_parent_ended(job_id, queue_id, JobOutcome::kAcked, result);
		case RowEnd::kDead:
			return note_parent_died(job_id);
		case RowEnd::kCancelled:
			return note_parent_ended(job_id, queue_id, JobOutcome::kCancelled);
		case RowEnd::kExpired:
			return note_parent_ended(job_id, queue_id, JobOutcome::kExpired);
	}
}

WriteResult
end_row(SegmentSet &segments, const QueueRef &ref, const Place &place, int64 job_id, RowEnd why,
		const Death *death, bool wait, const Finish *finish, const Datum *result, JobRow *deleted)
{
	SchedulingColumns was;
	WriteResult written =
		end_in_its_way(segments, ref, place, job_id, why, death, wait, finish, &was, deleted);
	if (written != WriteResult::kDone)
		return written;
	leave_queue(ref, was);
	/* The record of a finished job has the result, too. */
	if (why == RowEnd::kAcked && finish == nullptr)
		keep_own_result(job_id, result);
	if (was.batch_id != 0 && why == RowEnd::kAcked)
		note_member_in_hand(was.batch_id);
	if (was.batch_id != 0)
		leave_batch(segments, was.batch_id, job_id, why);
	leave_children(segments, job_id, was.queue_id, why, result);
	return written;
}

/* With wait = false the write would report this transaction's own lock of the row as busy. */
bool
end_locked_row(SegmentSet &segments, const QueueRef &ref, const JobRow &row, RowEnd why)
{
	Records records;
	const Finish finish = {&records, nullptr, nullptr};
	bool done = end_row(segments, ref, row.place, row.job_id(), why, nullptr, true,
						queue_keeps_finished(ref) ? &finish : nullptr) == WriteResult::kDone;
	records.write();
	return done;
}

/*
 * Return whether the function is written in C. The owner of a function can replace it by CREATE OR
 * REPLACE: the OID stays the same, and the function stays a member of the extension. But only a
 * superuser can write a function in C.
 */
static bool
is_in_c(Oid function)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool is = HeapTupleIsValid(tuple) &&
			  reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple))->prolang == ClanguageId;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return is;
}

void
require_is_leased()
{
	const Oid argument = INT8OID;
	if (!is_in_c(own_function("is_leased", 1, &argument)))
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("function pgq_ext.is_leased(bigint) is missing, was replaced, or is not a "
					"member of extension \"pgq_ext\""),
			 errdetail("Purges of queues and the deletion of expired jobs call this function, to "
					   "spare jobs in work."),
			 errhint("If the function is missing or was replaced, restore it as a superuser, with "
					 "CREATE OR REPLACE FUNCTION and REVOKE as in the SQL script of the extension. "
					 "If it is not a member, run ALTER EXTENSION pgq_ext ADD FUNCTION "
					 "pgq_ext.is_leased(bigint).")));
}

uint64
end_waiting_rows(int32 queue_id)
{
	const SpiArgument id[] = {{INT4OID, Int32GetDatum(queue_id), false}};
	uint64 purged = 0;
	require_is_leased();
	with_statement_kind(StatementKind::kPurge, [&] {
		purged = spi_execute("DELETE FROM pgq_ext.job WHERE queue_id OPERATOR(pg_catalog.=) $1 "
							 "AND NOT pgq_ext.is_leased(job_id)",
							 id);
	});
	return purged;
}

void
end_all_rows(int32 queue_id)
{
	/*
	 * Wait for moves of records. While a record moves to another segment, some snapshots see
	 * neither version, so this DELETE could miss the record.
	 */
	(void) lock_queue(0, QueueLock::kMoves, ShareLock, true);
	const SpiArgument id[] = {{INT4OID, Int32GetDatum(queue_id), false}};
	with_statement_kind(StatementKind::kDrop, [&] {
		for (const RingSpec &ring : rings)
			spi_execute(psprintf("DELETE FROM pgq_ext.%s WHERE queue_id OPERATOR(pg_catalog.=) $1",
								 ring.table),
						id);
	});
	spi_execute("DELETE FROM pgq_ext.unique_key WHERE queue_id OPERATOR(pg_catalog.=) $1", id);
}

} // namespace pgq
