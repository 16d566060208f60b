/*
 * Rows that reach pgq_ext.job by any other door than ours: COPY, restore, plain
 * INSERT and UPDATE, logical replication. The trigger files them as pgq_enqueue
 * would: those that it cannot file are read from the heap later. It fails no row but those of a queue that is not there.
 * Rows of pgq_ext.queue, by whatever door: they may want a scheduler where none is.
 */
#include "api/args.h"
#include "api/by_hand.h"
#include "engine/registry.h"
#include "pg/scope.h"
#include "store/job.h"
#include "store/queue_lock.h"
#include "txn/effects.h"

namespace pgq {

static bool
is_segment(const Tables &t, Oid relid)
{
	for (int i = 0; i < t.segments; i++)
		if (t.segment[i].heap == relid)
			return true;
	return false;
}

static int32
queue_of(Relation rel, HeapTuple tuple)
{
	/* By its name: the SQL objects may be of another version. */
	bool is_null;
	return DatumGetInt32(SPI_getbinval(tuple, RelationGetDescr(rel),
									   SPI_fnumber(RelationGetDescr(rel), "queue_id"), &is_null));
}

static void
check_queue(const TriggerData *data, HeapTuple row)
{
	int32 queue_id = queue_of(data->tg_relation, row);
	if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event) ||
		queue_id != queue_of(data->tg_relation, data->tg_trigtuple))
		check_queue_of_job(data->tg_relation, queue_id);
}

static void
file_changed_row(const Tables &t, Relation rel, HeapTuple tuple)
{
	TupleDesc desc = RelationGetDescr(rel);
	bool is_null;
	int32 queue_id = queue_of(rel, tuple);
	int16 segment = DatumGetInt16(heap_getattr(tuple, kJobSegment, desc, &is_null));
	QueueRef ref;
	if (!find_attached_queue(t.database, queue_id, &ref))
	{
		note_unfiled_job();
		return;
	}
	reserve_hints(ref, t.queue, 1);
	add_hint(ref, hint_of(tuple, desc, static_cast<uint16>(segment)), false);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_job_changed);
PG_FUNCTION_INFO_V1(pgq_queue_appeared);

PGDLLEXPORT Datum
pgq_job_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("pgq_ext.job_changed() must be called as a trigger")));
	auto *data = reinterpret_cast<TriggerData *>(fcinfo->context);
	HeapTuple row =
		TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
	if (!TRIGGER_FIRED_AFTER(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		TRIGGER_FIRED_BY_DELETE(data->tg_event))
		return PointerGetDatum(nullptr);
	/*
	 * Each worker of pg_restore -j has locked a segment for itself alone: who looked at the others would wait in a
	 * circle, or with a lock of the queue for its dropper, who waits for the segment.
	 */
	bool alone = CheckRelationLockedByMe(data->tg_relation, AccessExclusiveLock, true);
	if (!alone)
		(void) lock_queue(queue_of(data->tg_relation, row), QueueLock::kWriters, RowExclusiveLock,
						  true);
	check_queue(data, row);
	if (shared == nullptr || has_unfiled_jobs())
		return PointerGetDatum(nullptr);
	const Tables *t = alone ? nullptr : tables_if_attached();
	/* No segments: a restore has not made their indexes yet. */
	if (t == nullptr || t->segments == 0)
		note_unfiled_job();
	else if (is_segment(*t, RelationGetRelid(data->tg_relation)))
		file_changed_row(*t, data->tg_relation, row);
	return PointerGetDatum(nullptr);
}

PGDLLEXPORT Datum
pgq_queue_appeared(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("pgq_ext.queue_appeared() must be called as a trigger")));
	if (shared != nullptr && !has_scheduler(MyDatabaseId))
		announce_queue_at_commit();
	return PointerGetDatum(nullptr);
}
}
