#include "load/probe.h"

#include "catalog/queue_lock.h"
#include "engine/hold.h"
#include "load/row_run.h"
#include "pg/stop_point.h"
#include "rows/head.h"
#include "txn/refill_role.h"

namespace pgq {

static constexpr int kProbesMax = 16;
static constexpr int kCandidatesMax = 32;
/*
 * Most rows that a probe reads of one group. More than kCandidatesMax, since some rows may be
 * leased.
 */
static constexpr int kRowsMax = 2 * kCandidatesMax;

struct ProbeRound
{
	QueueRef ref;
	Probe probes[kProbesMax];
	int n;
	bool fifo;
	OrderScan scan; /* the scan of the group that is being read */
};

/* ---- beginning ---- */

static bool
begin_probe(ProbeRound &round)
{
	(void) change_queue(round.ref, [&](QueueHold &hold) {
		Schedule &schedule = hold.schedule();
		schedule.fire(wall_now());
		if (!schedule.wants_probes())
			return;
		begin_refill_role(round.ref, RefillKind::kGroups);
		round.n = schedule.begin_probes(round.probes, kProbesMax);
		round.fifo = schedule.groups().rules().fifo;
		round.scan.due_line = schedule.due_line();
		round.scan.horizon = schedule.horizon();
		if (round.n == 0)
			end_refill_role();
	});
	return round.n > 0;
}

/* ---- one group ---- */

/* The rows that were found of one group. */
struct Found
{
	RowRun run;
	bool head; /* the queue has fifo: run.rows has one row, the head of the group */
};

static bool
read_limited(ProbeRound &round, const Probe &probe, Found *found)
{
	int room = Min(probe.room, kCandidatesMax);
	round.scan.start = probe.start;
	round.scan.group = probe.group;
	round.scan.ungrouped = probe.group == 0;
	return read_rows(round.scan, round.ref.queue_id, room + kCandidatesMax, &found->run);
}

static bool
read_head(const ProbeRound &round, const Probe &probe, Found *found)
{
	SegmentSet segments(AccessShareLock);
	found->run.rows = static_cast<Hint *>(palloc(sizeof(Hint)));
	found->head = find_head(segments, round.ref.queue_id, probe.group, probe.floor, INT64_MAX,
							&found->run.rows[0]);
	found->run.n = found->head;
	segments.close();
	return look_at_tables().has_segments;
}

/*
 * Collect rows that are not leased, at most as many as the group has room for. Returns the number
 * of rows looked at.
 */
static int
pick_candidates(QueueHold &hold, const Probe &probe, const Found &found, Hint *candidates, int *n)
{
	int most = Min(probe.room, kCandidatesMax);
	int i = 0;
	for (*n = 0; i < found.run.n && *n < most; i++)
	{
		const Hint &row = found.run.rows[i];
		Lease *lease = holder_of(hold.queue(), row.key.job_id);
		if (lease == nullptr)
			candidates[(*n)++] = row;
		else
		{
			note_missed(hold.queue(), lease, row);
			hold.schedule().note_met(row);
		}
	}
	return i;
}

static void
publish_probe(const ProbeRound &round, const Probe &probe, const Found &found)
{
	(void) change_queue(round.ref, [&](QueueHold &hold) {
		Hint candidates[kCandidatesMax];
		int n;
		int looked_at = pick_candidates(hold, probe, found, candidates, &n);
		Key next = Key::highest();
		int64 head = PG_INT64_MIN;
		if (found.head)
		{
			head = found.run.rows[0].key.job_id;
			next = {0, 0, head + 1};
		}
		else if (looked_at < found.run.n)
			next = found.run.rows[looked_at].key;
		else if (found.run.more)
			next = found.run.left_out.key;
		hold.schedule().finish_probe(probe.group, candidates, n, next, head);
		hold.pass_on();
	});
}

/* Read the next rows of a group, and publish these rows. Returns false if segments are missing. */
static bool
probe_group(ProbeRound &round, const Probe &probe)
{
	Found found{};
	bool in_order = round.fifo && probe.group != 0;
	bool complete = in_order ? read_head(round, probe, &found) : read_limited(round, probe, &found);
	if (complete)
	{
		stop_point("probe-publish");
		publish_probe(round, probe, found);
	}
	pfree(found.run.rows);
	return complete;
}

/* ---- all ---- */

RefillResult
probe_groups(const QueueRef &ref, bool wait)
{
	ProbeRound round{};
	round.ref = ref;
	if (!segments_known())
		return RefillResult::kNotReady;
	if (!lock_queue(ref.queue_id, QueueLock::kGroups, ExclusiveLock, wait))
		return RefillResult::kElsewhere;
	bool begun = begin_probe(round);
	bool complete = true;
	if (begun)
	{
		stop_point("probe-scan");
		for (int i = 0; i < round.n && complete; i++)
			complete = probe_group(round, round.probes[i]);
		if (complete)
			end_refill_role();
		else
			abandon_refill();
	}
	unlock_queue(ref.queue_id, QueueLock::kGroups, ExclusiveLock);
	if (!begun)
		return RefillResult::kNotNeeded;
	return complete ? RefillResult::kDone : RefillResult::kNotReady;
}

} // namespace pgq
