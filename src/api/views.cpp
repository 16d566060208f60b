/*
 * Set-returning functions behind the views: what only shared memory knows.
 */
#include "api/args.h"
#include "engine/copies.h"
#include "ring/snapshots.h"
#include "catalog/tables.h"

namespace pgq {

static ReturnSetInfo *
start_rows(FunctionCallInfo fcinfo)
{
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	return reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
}

static const char *
state_name(LeaseState state)
{
	switch (state)
	{
		case LeaseState::kClaiming:
			return "claiming";
		case LeaseState::kClaimed:
			return "claimed";
		case LeaseState::kParked:
			return "parked";
		case LeaseState::kLost:
		case LeaseState::kReaping:
			break;
	}
	return "lost";
}

/* The tokens of leases are for those only who may read them in pgq_ext.lease. */
static bool
may_see_tokens()
{
	Oid view = get_relname_relid("lease", get_namespace_oid("pgq_ext", false));
	return OidIsValid(view) && (pg_class_aclcheck(view, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
								pg_attribute_aclcheck(view, get_attnum(view, "lease"), GetUserId(),
													  ACL_SELECT) == ACLCHECK_OK);
}

static void
return_lease(ReturnSetInfo *result, const LeaseCopy &copy, bool with_token)
{
	bool claimed = copy.state == LeaseState::kClaimed || copy.state == LeaseState::kLost;
	Datum values[] = {
		Int64GetDatum(copy.job_id),
		Int64GetDatum(copy.token),
		Int32GetDatum(copy.queue_id),
		CStringGetTextDatum(copy.moving ? "moving" : state_name(copy.state)),
		Int32GetDatum(copy.attempt),
		CStringGetTextDatum(copy.worker),
		Int32GetDatum(copy.pid),
		TimestampTzGetDatum(copy.claimed_at),
		TimestampTzGetDatum(copy.expires_at),
		BoolGetDatum(copy.pinned),
	};
	bool nulls[lengthof(values)] = {};
	nulls[1] = !with_token;
	nulls[4] = nulls[5] = nulls[7] = nulls[8] = !claimed;
	nulls[6] = copy.pid == 0; /* of before a restart */
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

static void
return_duty(ReturnSetInfo *result, const char *name, int32 queue_id, const DutyNote &note)
{
	Datum values[] = {
		CStringGetTextDatum(name),
		Int32GetDatum(queue_id),
		TimestampTzGetDatum(note.last_run_at),
		TimestampTzGetDatum(note.next_run_at),
		Int32GetDatum(note.failures),
		TimestampTzGetDatum(note.failing_since),
		CStringGetTextDatum(note.last_error),
	};
	bool nulls[lengthof(values)] = {};
	nulls[1] = queue_id == 0;
	nulls[2] = note.last_run_at == 0;
	nulls[3] = note.next_run_at == 0;
	nulls[5] = nulls[6] = note.failing_since == 0;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_lease_entries);
PG_FUNCTION_INFO_V1(pgq_queue_entries);
PG_FUNCTION_INFO_V1(pgq_segment_entries);
PG_FUNCTION_INFO_V1(pgq_duty_entries);
PG_FUNCTION_INFO_V1(pgq_snapshot_holders);

PGDLLEXPORT Datum
pgq_lease_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.lease_entries()");
	const Tables &t = tables();
	ReturnSetInfo *result = start_rows(fcinfo);
	bool with_tokens = may_see_tokens();
	int most = max_leases;
	auto *copies = static_cast<LeaseCopy *>(
		MemoryContextAllocHuge(CurrentMemoryContext, most * sizeof(LeaseCopy)));
	for_each_queue(t.database, [&](const QueueRef &ref) {
		int n = copy_leases(ref, copies, most);
		for (int i = 0; i < n; i++)
			return_lease(result, copies[i], with_tokens);
	});
	pfree(copies);
	return (Datum) 0;
}

/* One row for each queue in memory: its copy, and the rounds that the reconciler has made through all rows. */
PGDLLEXPORT Datum
pgq_queue_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.queue_entries()");
	const Tables &t = tables();
	ReturnSetInfo *result = start_rows(fcinfo);
	for_each_queue(t.database, [&](const QueueRef &ref) {
		QueueCopy q;
		if (!copy_queue(ref, &q))
			return;
		Datum values[] = {
			Int32GetDatum(q.queue_id),
			Int32GetDatum(q.leased),
			Int32GetDatum(q.waiting),
			TimestampTzGetDatum(q.last_claim_at),
			TimestampTzGetDatum(q.loaded_at),
			Int64GetDatum(q.counters.enqueued),
			Int64GetDatum(q.counters.handed_out),
			Int64GetDatum(q.counters.acked),
			Int64GetDatum(q.counters.failed),
			Int64GetDatum(q.counters.lost),
			Int64GetDatum(q.counters.dead),
			Int64GetDatum(q.counters.uncounted),
			Int64GetDatum(q.counters.repaired),
			Int64GetDatum(pg_atomic_read_u64(&t.database->reconciled)),
		};
		bool nulls[lengthof(values)] = {};
		nulls[3] = q.last_claim_at == 0;
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	});
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_duty_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.duty_entries()");
	const Tables &t = tables();
	ReturnSetInfo *result = start_rows(fcinfo);
	DutyNote notes[kDuties];
	copy_duties(t.database, notes);
	for (int i = 0; i < kDuties; i++)
		return_duty(result, duty_names[i], 0, notes[i]);
	for_each_queue(t.database, [&](const QueueRef &ref) {
		DutyNote of_queue[kQueueDuties];
		bool current = copy_duties(ref, of_queue);
		for (int i = 0; i < kQueueDuties && current; i++)
			return_duty(result, queue_duty_names[i], ref.queue_id, of_queue[i]);
	});
	return (Datum) 0;
}

/* One row for each segment: its place in its ring, what has happened to it, and what its last step has failed with. */
PGDLLEXPORT Datum
pgq_segment_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.segment_entries()");
	const Tables &t = tables();
	ReturnSetInfo *result = start_rows(fcinfo);
	for (int i = 0; i < t.all_segments; i++)
	{
		const Segment &segment = t.segment[i];
		RingName ring = ring_of(segment.number);
		uint32 survivors = pg_atomic_read_u32(&t.database->rings[ring].survivors);
		SegmentNotes &notes = t.database->segments[segment.number];
		auto empty_since = static_cast<TimestampTz>(pg_atomic_read_u64(&notes.empty_since));
		char error[sizeof(notes.error)];
		copy_segment_error(t.database, segment.number, error);
		Datum values[] = {
			Int32GetDatum(segment.number),
			ObjectIdGetDatum(segment.heap),
			BoolGetDatum(segment.number == current_segment(ring).number),
			BoolGetDatum(static_cast<uint32>(segment.number) == survivors),
			TimestampTzGetDatum(empty_since),
			Int64GetDatum(pg_atomic_read_u64(&notes.truncations)),
			Int64GetDatum(pg_atomic_read_u64(&notes.moved_in)),
			Int64GetDatum(pg_atomic_read_u64(&notes.moved_out)),
			CStringGetTextDatum(error),
		};
		bool nulls[lengthof(values)] = {};
		nulls[4] = empty_since == 0;
		nulls[8] = error[0] == '\0';
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_snapshot_holders(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.snapshot_holders()");
	const Tables &t = tables();
	ReturnSetInfo *result = start_rows(fcinfo);
	for (int i = 0; i < t.all_segments; i++)
	{
		int number = t.segment[i].number;
		auto empty_since =
			static_cast<TimestampTz>(pg_atomic_read_u64(&t.database->segments[number].empty_since));
		SnapshotHolder holder;
		for (int next = 1; empty_since != 0 && next_snapshot_holder(empty_since, &next, &holder);)
		{
			Datum values[] = {Int32GetDatum(number), Int32GetDatum(holder.pid),
							  CStringGetTextDatum(holder.application)};
			bool nulls[lengthof(values)] = {};
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		}
	}
	return (Datum) 0;
}
}
