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
	return running_statement() == StatementKind::kNone &&
		   SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

/*
 * Tell the scheduler of the batch at commit, and also at abort: the scheduler may have seen the
 * uncommitted row in a look at the batch, and may now wait for the end of this job.
 */
static void
note_inserted_member(int64 batch_id)
{
	if (shared == nullptr || running_statement() == StatementKind::kRecords)
		return;
	tell_batch_at_commit(batch_id, BatchNews::kChange, 0);
	tell_batch_at_abort(batch_id);
}

static Note
note_of_deleted_job()
{
	switch (running_statement())
	{
		case StatementKind::kPurge:
			return Note::kPurged;
		case StatementKind::kDrop:
			return Note::kDropped;
		case StatementKind::kCancel:
			return Note::kCancelled;
		default:
			return Note::kDeleted;
	}
}

static void
note_deleted_member(int64 batch_id, RingName ring)
{
	bool revived = ring == kDeadRing && running_statement() == StatementKind::kRevive;
	if (shared != nullptr)
		tell_batch_at_commit(batch_id, BatchNews::kChange, 0);
	if (!revived && !is_replicated())
		gather_note(batch_id, ring == kJobRing ? note_of_deleted_job() : Note::kDeadLetterDeleted);
}

/* A TRUNCATE does not say which rows are deleted, so each pending batch may have lost members. */
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
	/* An UPDATE within a partition neither adds a member nor ends one. */
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return;
	HeapTuple row = data->tg_trigtuple;
	int64 batch_id = batch_of_row(data->tg_relation, row, ring);
	if (batch_id == 0)
		return;
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		note_inserted_member(batch_id);
	else if (!is_moved(row))
		note_deleted_member(batch_id, ring);
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
