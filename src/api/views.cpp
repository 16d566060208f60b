/*
 * Functions that return the rows of the views that show shared memory.
 */
#include "api/args.h"
#include "api/result_rows.h"
#include "catalog/reader.h"
#include "catalog/rights.h"
#include "catalog/tables.h"
#include "engine/copies.h"
#include "load/attach.h"
#include "ring/snapshots.h"
#include "txn/effects.h"
#include "worker/scheduler_state.h"

namespace pgq {

static const char *
state_name(const LeaseCopy &copy)
{
	switch (copy.state)
	{
		case LeaseState::kClaiming:
			if (copy.moving)
				return "moving";
			return copy.changing ? "changing" : "claiming";
		case LeaseState::kClaimed:
			return "claimed";
		case LeaseState::kParked:
			return "parked";
		case LeaseState::kHeld:
			return "held";
		case LeaseState::kLost:
		case LeaseState::kReaping:
			break;
	}
	return "lost";
}

namespace {

enum class LeaseColumn
{
	kJobId,
	kLease,
	kQueueId,
	kState,
	kAttempt,
	kWorker,
	kPid,
	kClaimedAt,
	kExpiresAt,
	kPinned,
	kSessionBound,
	kColumns
};

} // namespace

/* Return whether the lease belongs to a worker, or to the scheduler that counts its attempt. */
static bool
is_or_was_claimed(const LeaseCopy &copy)
{
	return copy.state == LeaseState::kClaimed || copy.state == LeaseState::kLost ||
		   copy.state == LeaseState::kReaping;
}

static void
put_lease(ResultRows *rows, const LeaseCopy &copy, bool with_token)
{
	using enum LeaseColumn;
	/* Only a lease whose job was handed out belongs to a worker. */
	bool claimed = is_or_was_claimed(copy);
	ResultRow<LeaseColumn> row;
	row.set(kJobId, copy.job_id);
	row.set_if(with_token, kLease, copy.token);
	row.set(kQueueId, copy.queue_id);
	row.set(kState, state_name(copy));
	row.set_if(claimed, kAttempt, copy.attempt);
	row.set_if(claimed || copy.state == LeaseState::kHeld, kWorker, copy.worker);
	row.set_if(copy.pid != 0, kPid, copy.pid);
	row.set_if(claimed, kClaimedAt, copy.claimed_at);
	row.set_if(claimed, kExpiresAt, copy.expires_at);
	row.set(kPinned, copy.pinned);
	row.set(kSessionBound, copy.session_bound);
	rows->put(row);
}

static void
put_leases(ResultRows *rows)
{
	bool with_tokens = may_read("lease", "lease");
	int most = max_leases;
	auto *copies = static_cast<LeaseCopy *>(
		MemoryContextAllocHuge(CurrentMemoryContext, most * sizeof(LeaseCopy)));
	for_each_visible_queue(tables().database, [&](const QueueRef &ref) {
		int n = copy_leases(ref, copies, most);
		for (int i = 0; i < n; i++)
			put_lease(rows, copies[i], with_tokens);
	});
	pfree(copies);
}

namespace {

enum class QueueColumn
{
	kQueueId,
	kReady,
	kScheduled,
	kLeased,
	kDeadLetters,
	kWaiting,
	kRunning,
	kNextStart,
	kDepth,
	kLastClaimAt,
	kLoadedAt,
	kColumns
};

} // namespace

static void
put_queue(ResultRows *rows, const QueueCopy &copy)
{
	using enum QueueColumn;
	ResultRow<QueueColumn> row;
	row.set(kQueueId, copy.queue_id);
	/*
	 * The counts of a commit change one after the other, shortly after the commit becomes visible.
	 * So for a moment the difference may be negative.
	 */
	int64 ready = copy.live - copy.scheduled - copy.blocked - copy.leased;
	row.set_if(copy.timed, kReady, Max(ready, INT64CONST(0)));
	row.set_if(copy.timed, kScheduled, Max(copy.scheduled, INT64CONST(0)));
	row.set(kLeased, copy.leased);
	row.set_if(copy.counted, kDeadLetters, Max(copy.dead, INT64CONST(0)));
	row.set(kWaiting, copy.waiting);
	row.set(kRunning, copy.running);
	row.set_if(copy.next_start != INT64_MAX, kNextStart,
			   wall_now() + (copy.next_start - monotonic_now()));
	row.set_if(copy.depth >= 0, kDepth, copy.depth);
	row.set_if(copy.last_claim_at != 0, kLastClaimAt, copy.last_claim_at);
	row.set(kLoadedAt, copy.loaded_at);
	rows->put(row);
}

static void
put_queues(ResultRows *rows)
{
	if (any_prepared())
		resolve_prepared();
	for_each_visible_queue(tables().database, [&](const QueueRef &ref) {
		QueueCopy copy;
		if (copy_queue(ref, &copy))
			put_queue(rows, copy);
	});
}

namespace {

enum class GroupColumn
{
	kQueueId,
	kGroupId,
	kNextStart,
	kColumns
};

} // namespace

static void
put_group(ResultRows *rows, const QueueRef &ref, const int64 *group, int64 next_start)
{
	using enum GroupColumn;
	ResultRow<GroupColumn> row;
	row.set(kQueueId, ref.queue_id);
	row.set_if(group != nullptr, kGroupId, group == nullptr ? 0 : *group);
	row.set_if(next_start != INT64_MAX, kNextStart, wall_now() + (next_start - monotonic_now()));
	rows->put(row);
}

static void
put_groups(ResultRows *rows)
{
	for_each_visible_queue(tables().database, [&](const QueueRef &ref) {
		GroupCopy copies[kHoldMax];
		int64 others;
		int64 last = PG_INT64_MIN;
		for (int n; (n = copy_groups(ref, last, copies, kHoldMax, &others)) > 0;)
		{
			for (int i = 0; i < n; i++)
				put_group(rows, ref, &copies[i].id, copies[i].next_start);
			last = copies[n - 1].id;
		}
		if (others != INT64_MAX)
			put_group(rows, ref, nullptr, others);
	});
}

namespace {

enum class DutyColumn
{
	kName,
	kQueueId,
	kLastRunAt,
	kNextRunAt,
	kFailures,
	kFailingSince,
	kLastError,
	kColumns
};

} // namespace

static void
put_duty(ResultRows *rows, const char *name, int32 queue_id, const DutyStatus &note)
{
	using enum DutyColumn;
	bool failing = note.failing_since != 0;
	ResultRow<DutyColumn> row;
	row.set(kName, name);
	row.set_if(queue_id != 0, kQueueId, queue_id);
	row.set_if(note.last_run_at != 0, kLastRunAt, note.last_run_at);
	row.set_if(note.next_run_at != 0, kNextRunAt, note.next_run_at);
	row.set(kFailures, note.failures);
	row.set_if(failing, kFailingSince, note.failing_since);
	row.set_if(failing, kLastError, note.last_error);
	rows->put(row);
}

static void
put_duties(ResultRows *rows)
{
	const Database *db = tables().database;
	DutyStatus notes[kDutyStatuses];
	copy_duties(db, notes);
	for (int i = 0; i < kDuties; i++)
		put_duty(rows, duties[i].name, 0, notes[i]);
	for_each_visible_queue(db, [&](const QueueRef &ref) {
		DutyStatus of_queue[kQueueDutyStatuses];
		bool current = copy_duties(ref, of_queue);
		for (int i = 0; i < kQueueDuties && current; i++)
			put_duty(rows, queue_duties[i].name, ref.queue_id, of_queue[i]);
	});
}

namespace {

enum class SegmentColumn
{
	kNumber,
	kTable,
	kCurrent,
	kSurvivors,
	kEmptySince,
	kTruncations,
	kMovedIn,
	kMovedOut,
	kError,
	kColumns
};

} // namespace

static TimestampTz
empty_since(const Database *db, int number)
{
	return static_cast<TimestampTz>(value_of(db->segments[number].empty_since));
}

static void
put_segment(ResultRows *rows, const Tables &t, const Segment &segment)
{
	const Database *db = t.database;
	using enum SegmentColumn;
	RingName ring = ring_of(segment.number);
	const SegmentStatus &notes = db->segments[segment.number];
	TimestampTz empty = empty_since(db, segment.number);
	char error[sizeof(notes.error)];
	copy_segment_error(db, segment.number, error);
	ResultRow<SegmentColumn> row;
	row.set(kNumber, segment.number);
	row.set(kTable, segment.heap);
	row.set(kCurrent, segment.number == t.current(ring).number);
	row.set(kSurvivors, static_cast<uint32>(segment.number) == value_of(db->rings[ring].survivors));
	row.set_if(empty != 0, kEmptySince, empty);
	row.set(kTruncations, value_of(notes.truncations));
	row.set(kMovedIn, value_of(notes.moved_in));
	row.set(kMovedOut, value_of(notes.moved_out));
	row.set_if(error[0] != '\0', kError, static_cast<const char *>(error));
	rows->put(row);
}

namespace {

enum class HolderColumn
{
	kNumber,
	kPid,
	kApplication,
	kColumns
};

} // namespace
/* Add the sessions that may have a snapshot which keeps the empty segment from being truncated. */
static void
put_holders(ResultRows *rows, int number, TimestampTz empty)
{
	SnapshotHolder holder;
	for (int next = 1; next_snapshot_holder(empty, &next, &holder);)
	{
		ResultRow<HolderColumn> row;
		row.set(HolderColumn::kNumber, number);
		row.set(HolderColumn::kPid, static_cast<int32>(holder.pid));
		row.set(HolderColumn::kApplication, static_cast<const char *>(holder.application));
		rows->put(row);
	}
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_lease_entries);
PG_FUNCTION_INFO_V1(pgq_lease_of);
PG_FUNCTION_INFO_V1(pgq_queue_entries);
PG_FUNCTION_INFO_V1(pgq_group_entries);
PG_FUNCTION_INFO_V1(pgq_segment_entries);
PG_FUNCTION_INFO_V1(pgq_duty_entries);
PG_FUNCTION_INFO_V1(pgq_snapshot_holders);

PGDLLEXPORT Datum
pgq_lease_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.lease_entries()");
	require_reader(fcinfo, {"lease", "job_status"});
	ResultRows rows(fcinfo);
	put_leases(&rows);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_lease_of(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.lease_of()");
	require_reader(fcinfo, {"lease", "job_status"});
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job"));
	ResultRows rows(fcinfo);
	LeaseCopy copy;
	if (copy_lease_of(tables().database, job_id, &copy) && is_or_was_claimed(copy) &&
		may_see(copy.queue_id))
		put_lease(&rows, copy, may_read("lease", "lease"));
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_queue_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.queue_entries()");
	require_reader(fcinfo, {"queue_status", "job_status"});
	ResultRows rows(fcinfo);
	put_queues(&rows);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_group_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.group_entries()");
	require_reader(fcinfo, {"job_status"});
	ResultRows rows(fcinfo);
	put_groups(&rows);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_duty_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.duty_entries()");
	require_reader(fcinfo, {"duty"});
	ResultRows rows(fcinfo);
	put_duties(&rows);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_segment_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.segment_entries()");
	require_reader(fcinfo, {"segment", "rotation_blocker"});
	const Tables &t = tables();
	ResultRows rows(fcinfo);
	for (const Segment &segment : t.all_segments())
		put_segment(&rows, t, segment);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_snapshot_holders(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.snapshot_holders()");
	require_reader(fcinfo, {"segment", "rotation_blocker"});
	const Tables &t = tables();
	ResultRows rows(fcinfo);
	for (const Segment &segment : t.all_segments())
		if (TimestampTz empty = empty_since(t.database, segment.number); empty != 0)
			put_holders(&rows, segment.number, empty);
	return (Datum) 0;
}
}
