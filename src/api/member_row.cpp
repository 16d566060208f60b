#include "api/member_row.h"

#include "api/trigger_data.h"
#include "engine/shared.h"
#include "rows/deleted_member.h"
#include "rows/job.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Return the batch of the row; 0: none. The column is checked by name, since the SQL objects may be
 * of another version, whose rows have no batch.
 */
static int64
batch_of_row(Relation rel, HeapTuple row, RingName ring)
{
	int column = ring == kJobRing ? static_cast<int>(kJobBatch) : static_cast<int>(kDeadBatch);
	TupleDesc desc = RelationGetDescr(rel);
	int64 batch_id = batch_in(row, desc, column);
	if (batch_id == 0 || TupleDescAttr(desc, column - 1)->atttypid != INT8OID ||
		strcmp(NameStr(TupleDescAttr(desc, column - 1)->attname), "batch_id") != 0)
		return 0;
	return batch_id;
}

bool
is_moved(HeapTuple row)
{
	return HeapTupleHeaderIndicatesMovedPartitions(row->t_data);
}

bool
is_replicated()
{
	return present_deed() == Deed::kNone &&
		   SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

/*
 * A row that comes is news at commit. It is also news at abort, as an enqueue is: the scheduler may
 * have seen the row, and wait for the end of the job.
 */
static void
note_comer(int64 batch_id)
{
	if (shared == nullptr || present_deed() == Deed::kRecords)
		return;
	tell_batch_at_commit(batch_id, BatchNews::kChange, 0);
	tell_batch_at_abort(batch_id);
}

static Note
note_of_deleted_job()
{
	switch (present_deed())
	{
		case Deed::kPurge:
			return Note::kPurged;
		case Deed::kDrop:
			return Note::kDropped;
		case Deed::kCancel:
			return Note::kCancelled;
		default:
			return Note::kDeleted;
	}
}

static void
note_goer(int64 batch_id, RingName ring)
{
	bool revived = ring == kDeadRing && present_deed() == Deed::kRevive;
	if (shared != nullptr)
		tell_batch_at_commit(batch_id, BatchNews::kChange, 0);
	if (!revived && !is_replicated())
		gather_note(batch_id, ring == kJobRing ? note_of_deleted_job() : Note::kDeadLetterDeleted);
}

/* A TRUNCATE names no rows, so each batch that can still get a callback may have lost members. */
static void
note_truncation()
{
	if (!is_replicated())
		note_all_batches(Note::kDeleted);
	if (shared != nullptr)
		tell_all_batches_at_commit();
}

void
note_member(const TriggerData *data, RingName ring)
{
	if (!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		return note_truncation();
	/* An UPDATE of a row, other than a move, leaves the member where it is. */
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return;
	HeapTuple row = data->tg_trigtuple;
	int64 batch_id = batch_of_row(data->tg_relation, row, ring);
	if (batch_id == 0)
		return;
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		note_comer(batch_id);
	else if (!is_moved(row))
		note_goer(batch_id, ring);
}

void
refuse_other_batch(const TriggerData *data)
{
	int64 before = batch_of_row(data->tg_relation, data->tg_trigtuple, kJobRing);
	if (before == batch_of_row(data->tg_relation, data->tg_newtuple, kJobRing))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("the batch of a job cannot be changed"),
			 errhint("Enqueue another job into the other batch, and cancel this one.")));
}

} // namespace pgq
