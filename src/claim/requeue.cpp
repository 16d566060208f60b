#include "claim/requeue.h"

#include "engine/hold.h"
#include "txn/effects.h"

namespace pgq {

/*
 * File the job in the queue to which SQL has moved the job. Call this after the lease in the old
 * queue has ended: a claim of the new queue drops the hint of a job that still has a lease.
 */
static void
file_in_its_queue(const Database *db, const JobRow &row)
{
	QueueRef ref;
	if (find_attached_queue(db, row.queue_id(), &ref))
		(void) change_queue(ref, [&](QueueHold &hold) { hold.file(row.hint()); });
	/* If that queue has no slot, the row is read when the queue gets a slot. */
}

/*
 * Return whether memory may do without the hint of a live job: the job is behind an earlier job of
 * its group, and the end of the earlier job leads to this one. If the clock was set back, the job
 * may not be due any more. Then memory needs the hint, since jobs that are not due are found only
 * through the timer.
 */
static bool
waits_behind(const Candidate &popped, const Schedule &schedule)
{
	return popped.behind && schedule.due(popped.row.hint());
}

static void
settle_lease(const QueueRef &ref, const Candidate &popped, int64 monotonic, QueueHold &hold)
{
	hold->counters.ghosts += popped.ghost;
	if (popped.left)
		hold.give_back(popped.lease);
	else if (popped.fits(ref))
		add_claim_effect(ref, popped.lease);
	else if (popped.visibility == Visibility::kBusy)
		park_lease(popped.lease, monotonic);
	else if (popped.visibility == Visibility::kDead || popped.row.queue_id() != ref.queue_id ||
			 waits_behind(popped, hold.schedule()))
		hold.end(popped.lease);
	else
	{
		popped.lease->hint = popped.row.hint();
		hold.give_back(popped.lease);
	}
}

/*
 * With fair, return the turns of the groups whose popped jobs cannot be handed out. A claim returns
 * turns only a few times: otherwise a group with many expired jobs would keep other groups waiting.
 */
static void
return_turns(Round *round, Schedule &schedule)
{
	static constexpr int kMostReturned = 8;
	for (int i = round->n - 1; i >= 0 && round->turns_returned < kMostReturned; i--)
		if (const Candidate &popped = round->popped[i]; !popped.fits(round->ref))
			round->turns_returned += schedule.return_turn_late(popped.hint, popped.turn);
}

void
requeue_rejected(Round *round)
{
	const QueueRef &ref = round->ref;
	/*
	 * Forget the claim effects of all jobs of the round, which are the newest effects.
	 * settle_lease() registers the effect again for each job that can be handed out.
	 */
	forget_lease_effects(round->n);
	(void) change_queue(ref, [&](QueueHold &hold) {
		int64 monotonic = monotonic_now();
		return_turns(round, hold.schedule());
		for (int i = 0; i < round->n; i++)
			settle_lease(ref, round->popped[i], monotonic, hold);
	});
	for (int i = 0; i < round->n; i++)
	{
		const Candidate &popped = round->popped[i];
		if (popped.visibility == Visibility::kLive && popped.row.queue_id() != ref.queue_id)
			file_in_its_queue(ref.queue->database, popped.row);
	}
}

} // namespace pgq
