#include "api/parent_row.h"

#include "api/member_row.h"
#include "api/trigger_data.h"
#include "engine/child_watch.h"
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
	return type == INT8OID ? DatumGetInt64(value) : DatumGetInt32(value);
}

static bool
is_blocked_row(const TriggerData *data)
{
	Datum blocked;
	return value_of(data, data->tg_trigtuple, "blocked", INT8OID, &blocked);
}

static JobOutcome
outcome_of_deleted_job()
{
	switch (running_statement())
	{
		case StatementKind::kPurge:
			return JobOutcome::kPurged;
		case StatementKind::kDrop:
			return JobOutcome::kDropped;
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
note_come(const TriggerData *data, RingName ring, int64 job_id)
{
	if (ring == kDeadRing)
		return note_parent_died(job_id);
	if (is_blocked_row(data))
		tell_child_at_commit(job_id);
	note_parent_back(job_id);
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
	/* A blocked job comes from a restore, so rows of its dependencies may follow. */
	if (shared != nullptr && comes && ring == kJobRing && TRIGGER_FIRED_FOR_ROW(data->tg_event) &&
		is_blocked_row(data))
		note_rows_came(t != nullptr ? t->database : nullptr);
	if (t == nullptr || !may_have_children(t->database) || is_replicated() || (alone && comes) ||
		!OidIsValid(t->job_dependency))
		return;
	if (!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		return tell_all_children_at_commit();
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return;
	int64 job_id = number_in(data, data->tg_trigtuple, "job_id", INT8OID);
	if (comes)
		note_come(data, ring, job_id);
	else if (!is_moved(data->tg_trigtuple))
		note_gone(data, ring, job_id);
}

} // namespace pgq
