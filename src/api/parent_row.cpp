#include "api/parent_row.h"

#include "api/by_hand.h"
#include "api/member_row.h"
#include "api/trigger_data.h"
#include "engine/child_watch.h"
#include "pg/clock.h"
#include "rows/blocked.h"
#include "rows/deleted_member.h"
#include "steps/parent_end.h"
#include "txn/effects.h"

namespace pgq {

/* Return the number in that column of the row; 0 if the column cannot be read. */
static int64
number_in(const TriggerData *data, HeapTuple row, const char *column, Oid type)
{
	Datum value;
	if (!value_of(data, row, column, type, &value))
		return 0;
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

/* ---- blocked jobs ---- */

static bool
is_blocked_row(const TriggerData *data, HeapTuple row)
{
	Datum blocked;
	return value_of(data, row, "blocked", INT8OID, &blocked);
}

static bool
differs(const TriggerData *data, const char *column, Oid type)
{
	return number_in(data, data->tg_trigtuple, column, type) !=
		   number_in(data, data->tg_newtuple, column, type);
}

static HeapTuple
with_run_at(const TriggerData *data, HeapTuple row, TimestampTz run_at)
{
	TupleDesc desc = RelationGetDescr(data->tg_relation);
	int column = SPI_fnumber(desc, "run_at");
	Datum value = TimestampTzGetDatum(run_at);
	bool is_null = false;
	return heap_modify_tuple_by_cols(row, desc, 1, &column, &value, &is_null);
}

static void
refuse_change_of_child(const TriggerData *data)
{
	if (differs(data, "parents", INT2OID))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("the number of parents of a job cannot be changed")));
	if (is_blocked_row(data, data->tg_trigtuple) && is_blocked_row(data, data->tg_newtuple) &&
		differs(data, "run_at", TIMESTAMPTZOID))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("job %lld is blocked", static_cast<long long>(number_in(
												   data, data->tg_newtuple, "job_id", INT8OID))),
				 errhint("Set the column blocked to NULL to make the job ready.")));
}

HeapTuple
fit_blocked(const TriggerData *data, HeapTuple row)
{
	bool updated = TRIGGER_FIRED_BY_UPDATE(data->tg_event);
	TimestampTz run_at = number_in(data, row, "run_at", TIMESTAMPTZOID);
	Datum delay;
	if (updated && !is_believed())
		refuse_change_of_child(data);
	if (is_blocked_row(data, row))
		return run_at == kBlockedRunAt ? row : with_run_at(data, row, kBlockedRunAt);
	if (run_at != kBlockedRunAt)
		return row;
	if (updated && value_of(data, data->tg_trigtuple, "blocked", INT8OID, &delay))
		return with_run_at(data, row, end_of_block(DatumGetInt64(delay), wall_now()));
	/* A row without a delay is not blocked. One second later, it does not count as blocked. */
	return with_run_at(data, row, kBlockedRunAt + USECS_PER_SEC);
}

/* Tell the scheduler of a child that was inserted, or that has to be judged again. */
static void
note_blocked(const TriggerData *data)
{
	HeapTuple row = row_of(data);
	if (!is_blocked_row(data, row))
		return;
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event) && is_blocked_row(data, data->tg_trigtuple) &&
		!differs(data, "parents", INT2OID) && !differs(data, "job_id", INT8OID))
		return;
	tell_child_at_commit(number_in(data, row, "job_id", INT8OID));
}

/* ---- parents ---- */

static JobOutcome
outcome_of_deleted_job()
{
	switch (running_statement())
	{
		case StatementKind::kPurge:
			return JobOutcome::kPurged;
		case StatementKind::kDrop:
			return JobOutcome::kDropped;
		case StatementKind::kCancel:
			return JobOutcome::kCancelled;
		default:
			return JobOutcome::kDeleted;
	}
}

static void
note_gone(const TriggerData *data, RingName ring, int64 job_id)
{
	HeapTuple row = data->tg_trigtuple;
	auto queue_id = static_cast<int32>(number_in(data, row, "queue_id", INT4OID));
	if (ring == kJobRing)
		return note_parent_ended(job_id, queue_id, outcome_of_deleted_job());
	if (running_statement() == StatementKind::kRevive)
		return;
	Datum error;
	bool has_error = value_of(data, row, "last_error", TEXTOID, &error);
	note_parent_ended(job_id, queue_id, JobOutcome::kDead, nullptr,
					  has_error ? DatumGetTextPP(error) : nullptr);
}

static void
note_come(RingName ring, int64 job_id)
{
	if (ring == kDeadRing)
		return note_parent_died(job_id);
	note_parent_back(job_id);
}

/*
 * Return whether this row may be one of many that SQL inserts one after the other, as in a restore or by
 * logical replication: for example, the dependencies of a blocked job come later. pg_dump switches
 * check_function_bodies off.
 */
static bool
others_may_follow(const TriggerData *data, RingName ring)
{
	return !check_function_bodies || is_replicated() ||
		   (ring == kJobRing && is_blocked_row(data, data->tg_trigtuple));
}

/* An UPDATE that changes the id of a job ends the job of the old id. */
static void
note_new_id(const TriggerData *data, RingName ring, int64 old_id)
{
	int64 new_id = number_in(data, data->tg_newtuple, "job_id", INT8OID);
	if (new_id == old_id)
		return;
	note_gone(data, ring, old_id);
	note_come(ring, new_id);
}

/*
 * Does not tell the scheduler, and writes no outcome, if the database has no slot in shared memory.
 * That does no harm: a scheduler that starts judges all blocked children, and a parent that is in
 * no table counts as failed.
 */
void
note_parent(const TriggerData *data, RingName ring, bool alone)
{
	const Tables *t = shared != nullptr ? tables_if_attached() : nullptr;
	bool comes = TRIGGER_FIRED_BY_INSERT(data->tg_event);
	if (shared != nullptr && comes && TRIGGER_FIRED_FOR_ROW(data->tg_event) &&
		others_may_follow(data, ring))
		note_rows_came(t != nullptr ? t->database : nullptr);
	if (shared != nullptr && ring == kJobRing && TRIGGER_FIRED_FOR_ROW(data->tg_event) &&
		!TRIGGER_FIRED_BY_DELETE(data->tg_event))
		note_blocked(data);
	if (t == nullptr || !may_have_children(t->database) || is_replicated() || (alone && comes) ||
		!OidIsValid(t->job_dependency()))
		return;
	if (!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		return tell_all_children_at_commit();
	int64 job_id = number_in(data, data->tg_trigtuple, "job_id", INT8OID);
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		note_new_id(data, ring, job_id);
	else if (comes)
		note_come(ring, job_id);
	else if (!is_moved(data->tg_trigtuple))
		note_gone(data, ring, job_id);
}

} // namespace pgq
