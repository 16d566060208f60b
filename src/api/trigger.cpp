/*
 * Rows that reach pgq_ext.job by any other door than ours: COPY, restore, plain
 * INSERT and UPDATE, logical replication. The trigger files them as pgq_enqueue
 * would. It never fails a row: those that it cannot file are read from the heap later.
 */
#include "api/args.h"
#include "engine/registry.h"
#include "pg/scope.h"
#include "store/job.h"
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

static void
file_changed_row(const Tables &t, Relation rel, HeapTuple tuple)
{
	TupleDesc desc = RelationGetDescr(rel);
	bool is_null;
	int32 queue_id = DatumGetInt32(heap_getattr(tuple, kJobQueueId, desc, &is_null));
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

PGDLLEXPORT Datum
pgq_job_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("pgq_ext.job_changed() must be called as a trigger")));
	auto *data = reinterpret_cast<TriggerData *>(fcinfo->context);
	HeapTuple row =
		TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
	if (shared == nullptr || !TRIGGER_FIRED_AFTER(data->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(data->tg_event) || TRIGGER_FIRED_BY_DELETE(data->tg_event) ||
		has_unfiled_jobs())
		return PointerGetDatum(nullptr);
	/* Each worker of pg_restore -j has locked a segment for itself alone: who looked at the others would wait in a circle. */
	bool alone = CheckRelationLockedByMe(data->tg_relation, AccessExclusiveLock, true);
	const Tables *t = alone ? nullptr : tables_if_attached();
	/* No segments: a restore has not made their indexes yet. */
	if (t == nullptr || t->segments == 0)
		note_unfiled_job();
	else if (is_segment(*t, RelationGetRelid(data->tg_relation)))
		file_changed_row(*t, data->tg_relation, row);
	return PointerGetDatum(nullptr);
}
}
