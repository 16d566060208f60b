/*
 * Counters that change at commit: how long jobs have waited and run, and how many enqueues were
 * answered with an existing job.
 */
#include "engine/hold.h"
#include "txn/effects.h"
#include "txn/pending.h"

namespace pgq {

/* ---- times ---- */

void
note_wait(Lease *lease, int64 monotonic)
{
	int64 &waited = lease->times.waited;
	if (waited == LeaseTimes::kUnknown)
		return;
	lease->queue->latency.of(Phase::kWait).add(waited, monotonic);
	waited = LeaseTimes::kUnknown;
}

/*
 * Return whether a call has reported the end of the attempt, so that the time of the end is known.
 * For a lost lease, the time at which the worker stopped is unknown.
 */
static bool
was_answered(LeaseEnd how)
{
	return how == LeaseEnd::kAcked || how == LeaseEnd::kFailed || how == LeaseEnd::kReleased ||
		   is_by_id(how);
}

void
note_end(const Lease *lease, LeaseEnd how, int64 monotonic)
{
	const LeaseTimes &times = lease->times;
	QueueLatency &latency = lease->queue->latency;
	int64 run = monotonic - lease->handed_out_at;
	if (times.ran && was_answered(how))
		latency.of(Phase::kRun).add(run, monotonic);
	/* Measure the run time by the monotonic clock: the wall clock may be set while the job runs. */
	if (times.enqueued_at != 0 && (how == LeaseEnd::kAcked || how == LeaseEnd::kFinished))
		latency.of(Phase::kTotal)
			.add(time_between(times.enqueued_at, lease->claimed_at) + run, monotonic);
}

/* ---- duplicates ---- */

void
note_duplicate(const QueueRef &ref)
{
	List<DuplicateEffect> &duplicates = pending.effects.duplicates;
	SubTransactionId sub = GetCurrentSubTransactionId();
	if (duplicates.size > 0)
	{
		/*
		 * An effect promoted from a child subtransaction may still be undone alone, so do not add
		 * to such an effect.
		 */
		DuplicateEffect &newest = duplicates.end()[-1];
		if (newest.tag.sub == sub && newest.tag.from == InvalidSubTransactionId &&
			newest.ref.queue == ref.queue && newest.ref.generation == ref.generation)
		{
			newest.jobs++;
			return;
		}
	}
	duplicates.reserve(1);
	duplicates.push({{sub, InvalidSubTransactionId}, ref, 1});
}

void
undo_duplicates(SubTransactionId mine)
{
	List<DuplicateEffect> &duplicates = pending.effects.duplicates;
	while (duplicates.size > 0 && duplicates.end()[-1].tag.belongs_to(mine))
		duplicates.size--;
}

void
settle_duplicates(const List<DuplicateEffect> &duplicates)
{
	for (const DuplicateEffect &effect : duplicates)
		(void) change_queue(effect.ref,
							[&](QueueHold &hold) { hold->counters.deduplicated += effect.jobs; });
}

} // namespace pgq
