#include "rows/ended_job.h"

#include "catalog/shape.h"
#include "rows/index.h"

#include <string_view>

namespace pgq {

/*
 * Call visit(rel, tuple, buffer) for the versions of the records of the job in all segments of the
 * ring, each under the lock of its buffer, and then call after(rel) for each segment.
 */
template <typename Visit, typename After>
static void
visit_records(RingName ring, int64 job_id, Visit visit, After after)
{
	require_complete_segments();
	for (const Segment &segment : look_at_tables().segments(ring))
	{
		Relation rel = open_segment(segment, AccessShareLock);
		if (RelationGetNumberOfBlocks(rel) > 0)
		{
			IndexLookup *lookup =
				begin_index_lookup(rel, shape_of(rel, segment.number).index[kById], job_id);
			while (next_version(lookup))
			{
				visit(rel, lookup->tuple, lookup->buffer);
				unlock_version(lookup);
			}
			end_index_lookup(lookup);
		}
		after(rel);
		table_close(rel, AccessShareLock);
	}
}

template <typename Visit>
static void
visit_dead_letters(int64 job_id, Visit visit)
{
	visit_records(kDeadRing, job_id, visit, [](Relation) {});
}

/* Rotation may move the row to a segment that was already searched: see look_up.cpp. */
JobTrace
trace_dead_letter(int64 job_id)
{
	for (uint64 before = 0;;)
	{
		JobTrace trace{};
		uint64 moved = 0;
		visit_dead_letters(job_id, [&](Relation rel, HeapTuple tuple, Buffer buffer) {
			add_to_trace(tuple, buffer, RelationGetDescr(rel), kDeadQueueId, &trace);
			if (visibility_of(tuple, buffer) == Visibility::kDead)
				moved += trace_of(tuple);
		});
		if (trace.state != JobTrace::kNone || moved == before)
			return trace;
		before = moved;
		CHECK_FOR_INTERRUPTS();
	}
}

bool
is_dead_letter_visible(int64 job_id, Snapshot snapshot)
{
	bool seen = false;
	visit_dead_letters(job_id, [&](Relation, HeapTuple tuple, Buffer buffer) {
		seen = seen || HeapTupleSatisfiesVisibility(tuple, snapshot, buffer);
	});
	return seen;
}

/* ---- finished jobs ---- */

static JobOutcome
outcome_of(std::string_view word)
{
	for (JobOutcome outcome : {JobOutcome::kAcked, JobOutcome::kCancelled, JobOutcome::kExpired})
		if (word == name_of_outcome(outcome))
			return outcome;
	return JobOutcome::kDeleted;
}

static void
read_finished(HeapTuple tuple, TupleDesc desc, OutcomeRow *outcome)
{
	bool is_null;
	auto get = [&](FinishedColumn column) { return heap_getattr(tuple, column, desc, &is_null); };
	const text *word = DatumGetTextPP(get(kFinishedOutcome));
	outcome->job_id = DatumGetInt64(get(kFinishedJobId));
	outcome->queue_id = DatumGetInt32(get(kFinishedQueueId));
	outcome->outcome = outcome_of({VARDATA_ANY(word), VARSIZE_ANY_EXHDR(word)});
	outcome->error = nullptr;
	Datum result = get(kFinishedResult);
	outcome->result = is_null ? nullptr : DatumGetJsonbPCopy(result);
}

bool
find_finished(int64 job_id, OutcomeRow *outcome)
{
	HeapTuple found = nullptr;
	TimestampTz newest = DT_NOBEGIN;
	bool any = false;
	visit_records(
		kFinishedRing, job_id,
		[&](Relation rel, HeapTuple tuple, Buffer buffer) {
			JobTrace trace{};
			bool is_null;
			add_to_trace(tuple, buffer, RelationGetDescr(rel), kFinishedQueueId, &trace);
			TimestampTz at = DatumGetTimestampTz(
				heap_getattr(tuple, kFinishedAt, RelationGetDescr(rel), &is_null));
			if (trace.state != JobTrace::kThere || at < newest)
				return;
			newest = at;
			found = heap_copytuple(tuple);
		},
		[&](Relation rel) {
			/* Detoast while the segment is locked. */
			if (found != nullptr)
				read_finished(found, RelationGetDescr(rel), outcome);
			any = any || found != nullptr;
			found = nullptr;
		});
	return any;
}

} // namespace pgq
