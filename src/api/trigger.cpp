/*
 * Triggers for rows of pgq_ext.job that SQL statements write directly, not through the functions of
 * the extension: COPY, restore, INSERT, UPDATE, DELETE, logical replication. The trigger
 * job_changed files such rows as pgq_enqueue does. Rows that the trigger cannot file are read from
 * the table later. The trigger raises an error only for a row of a queue that does not exist. The
 * trigger job_fence keeps a late ack from ending a job that its worker has not seen
 * (protocol: changed-job-is-another). The trigger queue_appeared, of pgq_ext.queue, starts a
 * scheduler if the database has no scheduler.
 */
#include "api/args.h"
#include "api/by_hand.h"
#include "api/member_row.h"
#include "api/parent_row.h"
#include "api/trigger_data.h"
#include "catalog/queue_lock.h"
#include "catalog/shape.h"
#include "catalog/token_mark.h"
#include "engine/hold.h"
#include "engine/token.h"
#include "pg/scope.h"
#include "rows/job.h"
#include "txn/effects.h"

namespace pgq {

static bool
is_segment(const Tables &t, Oid relid)
{
	for (const Segment &segment : t.segments(kJobRing))
		if (segment.heap == relid)
			return true;
	return false;
}

/* Return the queue id of the row; 0, which no queue has, if the column cannot be read. */
static int32
queue_of(const TriggerData *data, HeapTuple tuple)
{
	Datum value;
	return value_of(data, tuple, "queue_id", INT4OID, &value) ? DatumGetInt32(value) : 0;
}

/* Return the job id of the row; 0, which no job has, if the column cannot be read. */
static int64
job_of(const TriggerData *data, HeapTuple tuple)
{
	Datum value;
	return value_of(data, tuple, "job_id", INT8OID, &value) ? DatumGetInt64(value) : 0;
}

/* Return the slot of the database without reading the extension's tables. */
static const Database *
database_without_tables()
{
	Oid queues = get_relname_relid("queue", get_namespace_oid("pgq_ext", true));
	return OidIsValid(queues) ? find_database(MyDatabaseId, queues) : nullptr;
}

/*
 * For each row that has fired the trigger and whose job is in work, note in the lease that the row
 * is inserted, deleted or moved to another queue. Without rows, as for TRUNCATE, note that all rows
 * are gone.
 */
static void
note_leases(const Database *db, const TriggerData *data)
{
	auto note = [&](HeapTuple tuple, RowMove move) {
		note_row_of_lease(db, queue_of(data, tuple), job_of(data, tuple), move);
	};
	if (!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		note_all_rows_gone(db);
	else if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		note(data->tg_trigtuple, RowMove::kInserted);
	else if (TRIGGER_FIRED_BY_DELETE(data->tg_event))
		note(data->tg_trigtuple, RowMove::kDeleted);
	else if (queue_of(data, data->tg_trigtuple) != queue_of(data, data->tg_newtuple))
	{
		note(data->tg_trigtuple, RowMove::kLeft);
		note(data->tg_newtuple, RowMove::kEntered);
	}
}

static void
check_queue(const TriggerData *data, HeapTuple row)
{
	int32 queue_id = queue_of(data, row);
	if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event) || queue_id != queue_of(data, data->tg_trigtuple))
		check_queue_of_job(data->tg_relation, queue_id);
}

/*
 * Like find_attached_queue(), but remembers the last queue, which is faster for many rows of one
 * queue.
 */
static bool
find_slot(const Tables &t, int32 queue_id, QueueRef *ref)
{
	static constinit QueueRef last = {};
	const Queue *queue = last.queue;
	bool known = queue != nullptr && last.queue_id == queue_id && queue->database == t.database &&
				 queue->database_generation == t.database_generation && is_alive(last);
	if (!known && !find_attached_queue(t.database, queue_id, &last))
	{
		last = {};
		return false;
	}
	*ref = last;
	return true;
}

/*
 * Count a row that is inserted (comes is true) or deleted. If the queue of the row has no slot, the
 * rows of the queue are counted when the queue gets a slot. At that time this transaction may still
 * be open. So after its commit the rows of all queues are counted again.
 */
static void
note_row(const Tables &t, HeapTuple tuple, TupleDesc desc, bool comes)
{
	QueueRef ref;
	SchedulingColumns standing = scheduling_columns_of(tuple, desc);
	int64 n = comes ? 1 : -1;
	if (!find_slot(t, standing.queue_id, &ref))
		return note_uncounted_rows();
	note_rows(ref, t.queue, n);
	if (standing.delayed)
		note_due(ref, t.queue, standing.run_at, n);
}

static void
note_change(const Tables &t, const TriggerData *data)
{
	TupleDesc desc = RelationGetDescr(data->tg_relation);
	if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return note_row(t, data->tg_trigtuple, desc, TRIGGER_FIRED_BY_INSERT(data->tg_event));
	if (scheduling_columns_of(data->tg_trigtuple, desc) ==
		scheduling_columns_of(data->tg_newtuple, desc))
		return;
	note_row(t, data->tg_trigtuple, desc, false);
	note_row(t, data->tg_newtuple, desc, true);
}

static void
note_dead_row(const Tables &t, const TriggerData *data)
{
	auto note = [&](HeapTuple tuple, int64 n) {
		QueueRef ref;
		if (find_slot(t, queue_of(data, tuple), &ref))
			note_dead_letters(ref, t.queue, n);
		else
			note_uncounted_rows();
	};
	if (!TRIGGER_FIRED_BY_INSERT(data->tg_event))
		note(data->tg_trigtuple, -1);
	if (!TRIGGER_FIRED_BY_DELETE(data->tg_event))
		note(row_of(data), 1);
}

static Hint
hint_of_row(HeapTuple tuple, TupleDesc desc)
{
	bool is_null;
	int16 segment = DatumGetInt16(heap_getattr(tuple, kJobSegment, desc, &is_null));
	return hint_of(tuple, desc, static_cast<uint16>(segment));
}

static void
file_changed_row(const Tables &t, const TriggerData *data)
{
	HeapTuple tuple = row_of(data);
	int32 queue_id = queue_of(data, tuple);
	QueueRef ref;
	if (!find_attached_queue(t.database, queue_id, &ref))
	{
		note_unfiled_job();
		return;
	}
	reserve_hints(ref, t.queue, 1);
	add_hint(ref, hint_of_row(tuple, RelationGetDescr(data->tg_relation)), false);
}

/*
 * If an UPDATE moves a row of a queue with fifo to another group or queue, file a hint of the old
 * row, as if the job were due, and note the change in the job's lease, if there is one. The row may have been the head of its old group. If its job has no
 * lease, no end of a lease makes memory look for the next head. So the hint does: a claim that
 * takes the hint finds no row of the job in the old group, and memory then looks for the next head
 * of that group. (Deleted rows need no hint: see note_deletions().)
 */
static void
file_row_that_left(const Tables &t, const TriggerData *data)
{
	Relation rel = data->tg_relation;
	TupleDesc desc = RelationGetDescr(rel);
	QueueRef ref;
	Hint hint = hint_of_row(data->tg_trigtuple, desc);
	bool left = hint.group != 0 && TRIGGER_FIRED_BY_UPDATE(data->tg_event) &&
				(hint_of_row(data->tg_newtuple, desc).group != hint.group ||
				 queue_of(data, data->tg_newtuple) != queue_of(data, data->tg_trigtuple));
	if (!left || !find_attached_queue(t.database, queue_of(data, data->tg_trigtuple), &ref))
		return;
	bool fifo = false;
	(void) change_queue(ref, [&](QueueHold &hold) {
		fifo = hold->options.fifo;
		Lease *lease = holder_of(hold.queue(), hint.key.job_id);
		if (lease != nullptr && lease->queue == hold.queue())
			note_regrouped(lease);
	});
	if (!fifo)
		return;
	hint.key.run_at = Min(hint.key.run_at, wall_now());
	hint.delayed = false;
	reserve_hints(ref, t.queue, 1);
	add_hint(ref, hint, false);
}

/*
 * Check that the queue of a new row exists. The lock of the queue makes a drop of the queue wait
 * for this transaction. alone: this session has locked the segment exclusively, so take no lock.
 */
static void
admit(const TriggerData *data, bool alone)
{
	HeapTuple row = row_of(data);
	if (!alone)
		(void) lock_queue(queue_of(data, row), QueueLock::kWriters, RowExclusiveLock, true);
	check_queue(data, row);
}

/* ---- the fence ---- */

/*
 * Return whether the update changes the id, queue, enqueued_at, payload or headers of the job. If
 * so, a worker that got the job before the update has not worked on the job as it is now. Columns
 * are found by name, since this library may not support the installed version of the SQL objects.
 * Values are compared as bytes: for equal values with different bytes, a late ack is refused
 * without need.
 */
static bool
is_another_job(TupleDesc desc, HeapTuple before, HeapTuple after)
{
	static constexpr const char *what[] = {"job_id", "queue_id", "enqueued_at", "payload",
										   "headers"};
	for (const char *name : what)
	{
		int column = SPI_fnumber(desc, name);
		if (column <= 0)
			continue;
		bool nulls[2];
		Datum one = heap_getattr(before, column, desc, &nulls[0]);
		Datum two = heap_getattr(after, column, desc, &nulls[1]);
		Form_pg_attribute attribute = TupleDescAttr(desc, column - 1);
		if (nulls[0] != nulls[1] ||
			(!nulls[0] && !datumIsEqual(one, two, attribute->attbyval, attribute->attlen)))
			return true;
	}
	return false;
}

/* Return the token mark, an upper bound of all tokens; 0: unknown. */
static int64
stored_mark(Relation rel)
{
	Oid mark = get_relname_relid("token_mark", RelationGetNamespace(rel));
	return OidIsValid(mark) && get_rel_relkind(mark) == RELKIND_SEQUENCE ? read_token_mark(mark)
																		 : 0;
}

/*
 * Return whether the row needs a fence. Each updated row needs a fence. An inserted row may have
 * the id of a job that was deleted before. is_honoured() refuses a late ack with a lease of that
 * job only if the row was enqueued after the lease was given. So an inserted row needs a fence if
 * its enqueued_at is not later than the time of newest_token. Rows of a dump or a publisher need no
 * fence.
 */
static bool
wants_fence(const TriggerData *data, HeapTuple row, int64 newest_token)
{
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return true;
	Datum enqueued_at;
	return !is_believed() && value_of(data, row, "enqueued_at", TIMESTAMPTZOID, &enqueued_at) &&
		   DatumGetTimestampTz(enqueued_at) <= time_of_prefix(prefix_of(newest_token));
}

static HeapTuple
with_fence(Relation rel, HeapTuple row, int64 fence)
{
	TupleDesc desc = RelationGetDescr(rel);
	int column = SPI_fnumber(desc, "fence");
	if (column <= 0 || TupleDescAttr(desc, column - 1)->atttypid != INT8OID)
		return row;
	bool is_null;
	Datum before = heap_getattr(row, column, desc, &is_null);
	Datum value = Int64GetDatum(is_null ? fence : Max(fence, DatumGetInt64(before)));
	is_null = false;
	return heap_modify_tuple_by_cols(row, desc, 1, &column, &value, &is_null);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_job_changed);
PG_FUNCTION_INFO_V1(pgq_job_fence);
PG_FUNCTION_INFO_V1(pgq_dead_job_changed);
PG_FUNCTION_INFO_V1(pgq_queue_appeared);

PGDLLEXPORT Datum
pgq_job_changed(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "job_changed");
	if (!TRIGGER_FIRED_AFTER(data->tg_event))
		return Datum{0};
	bool goes = TRIGGER_FIRED_FOR_ROW(data->tg_event) && TRIGGER_FIRED_BY_DELETE(data->tg_event);
	bool comes = TRIGGER_FIRED_FOR_ROW(data->tg_event) && !goes;
	/*
	 * Each worker process of pg_restore -j has locked its segment exclusively. If each of them then
	 * locked the other segments, the processes would deadlock. If such a process locked the queue,
	 * it could wait for a drop of the queue, and the drop would wait for the segment.
	 */
	bool alone = CheckRelationLockedByMe(data->tg_relation, AccessExclusiveLock, true);
	if (comes)
		admit(data, alone);
	note_member(data, kJobRing);
	note_parent(data, kJobRing, alone);
	if (shared != nullptr && goes)
		note_deleted_jobs();
	if (shared == nullptr)
		return Datum{0};
	const Tables *t = alone ? nullptr : tables_if_attached();
	if (const Database *db = t != nullptr ? t->database : database_without_tables())
		note_leases(db, data);
	if (has_unfiled_jobs())
		return Datum{0};
	if (goes)
	{
		if (t == nullptr || !has_whole_segments())
			note_uncounted_rows();
		else if (is_segment(*t, RelationGetRelid(data->tg_relation)))
			note_change(*t, data);
		return Datum{0};
	}
	/*
	 * Nothing can be filed now if the database has no slot, if this session is alone with the
	 * segment, or if a restore has not created all indexes of the segments yet. A TRUNCATE names no
	 * row that could be filed.
	 */
	if (t == nullptr || !has_whole_segments() || !comes)
		note_unfiled_job();
	else if (is_segment(*t, RelationGetRelid(data->tg_relation)))
	{
		note_change(*t, data);
		file_row_that_left(*t, data);
		file_changed_row(*t, data);
	}
	return Datum{0};
}

PGDLLEXPORT Datum
pgq_job_fence(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "job_fence");
	HeapTuple row = row_of(data);
	if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		TRIGGER_FIRED_BY_DELETE(data->tg_event))
		return PointerGetDatum(row);
	Relation rel = data->tg_relation;
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		refuse_other_batch(data);
	row = fit_blocked(data, row);
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event) &&
		!is_another_job(RelationGetDescr(rel), data->tg_trigtuple, row))
		return PointerGetDatum(row);
	/*
	 * If the database is not loaded, use the durable token mark as the fence: earlier tokens are
	 * not above the mark, later tokens are.
	 */
	bool alone = CheckRelationLockedByMe(rel, AccessExclusiveLock, true);
	const Tables *t = alone ? nullptr : tables_if_attached();
	int64 newest = t != nullptr ? greatest_of(last_prefix_drawn()) : stored_mark(rel);
	if (wants_fence(data, row, newest))
		row = with_fence(rel, row, t != nullptr ? cut_tokens(t->database) : newest);
	return PointerGetDatum(row);
}

/*
 * Trigger of pgq_ext.dead_job: counts the dead letters that SQL inserts or deletes, in statements
 * of the extension or of a user, and notes their ends for their batches.
 */
PGDLLEXPORT Datum
pgq_dead_job_changed(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "dead_job_changed");
	if (!TRIGGER_FIRED_AFTER(data->tg_event))
		return Datum{0};
	note_member(data, kDeadRing);
	if (shared == nullptr)
		return Datum{0};
	bool alone = CheckRelationLockedByMe(data->tg_relation, AccessExclusiveLock, true);
	note_parent(data, kDeadRing, alone);
	const Tables *t = alone ? nullptr : tables_if_attached();
	if (t == nullptr || !TRIGGER_FIRED_FOR_ROW(data->tg_event))
		note_uncounted_rows();
	else
		note_dead_row(*t, data);
	return Datum{0};
}

PGDLLEXPORT Datum
pgq_queue_appeared(PG_FUNCTION_ARGS)
{
	(void) trigger_data(fcinfo, "queue_appeared");
	if (shared != nullptr && !has_scheduler(MyDatabaseId))
		announce_queue_at_commit();
	return Datum{0};
}
}
