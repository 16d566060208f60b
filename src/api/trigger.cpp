/*
 * Rows that reach pgq_ext.job by any other door than ours: COPY, restore, plain
 * INSERT and UPDATE, logical replication. The trigger files them as pgq_enqueue
 * would. It never fails a row: what it does not understand, loading finds later.
 */
#include "api/args.h"
#include "engine/registry.h"
#include "pg/scope.h"
#include "store/job.h"
#include "txn/effects.h"

namespace pgq {

static bool
is_segment(Oid relid)
{
	const Tables &t = tables();
	for (int i = 0; i < t.segments; i++)
		if (t.segment[i].heap == relid)
			return true;
	return false;
}

static void
file_changed_row(Relation rel, HeapTuple tuple)
{
	TupleDesc desc = RelationGetDescr(rel);
	bool is_null;
	int32 queue_id = DatumGetInt32(heap_getattr(tuple, kJobQueueId, desc, &is_null));
	int16 segment = DatumGetInt16(heap_getattr(tuple, kJobSegment, desc, &is_null));
	QueueRef ref;
	/* A queue that is not attached will be read from the heap as a whole. */
	if (!find_attached_queue(tables().database, queue_id, &ref))
		return;
	reserve_hints(ref, tables().queue, 1);
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
	if (shared == nullptr || RecoveryInProgress() || !TRIGGER_FIRED_AFTER(data->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(data->tg_event) || !is_segment(RelationGetRelid(data->tg_relation)))
		return PointerGetDatum(nullptr);
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		file_changed_row(data->tg_relation, data->tg_trigtuple);
	else if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		file_changed_row(data->tg_relation, data->tg_newtuple);
	return PointerGetDatum(nullptr);
}
}
