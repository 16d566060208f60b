#include "claim/requeue.h"

#include "engine/hold.h"
#include "txn/effects.h"

namespace pgq {

/*
 * File the job in the queue to which SQL has moved the job. Call this after the lease in the old queue
 * has ended: a claim of the new queue drops the hint of a job that still has a lease.
 */
static void
file_in_its_queue(const Database *db, const JobRow &row)
{
	QueueRef ref;
	if (find_attached_queue(db, row.queue_id(), &ref))
		(void) change_queue(ref, [&](QueueHold &hold) { hold.file(row.hint()); });
	/* If that queue has no slot, the row is read when the queue gets a slot. */
}

static void
settle_lease(const QueueRef &ref, const Candidate &popped, int64 monotonic, QueueHold &hold)
{
	hold->counters.ghosts += popped.ghost;
	if (popped.fits(ref))
		add_claim_effect(ref, popped.lease);
	else if (popped.visibility == Visibility::kBusy)
		park_lease(popped.lease, monotonic);
	else if (popped.visibility == Visibility::kDead || popped.row.queue_id() != ref.queue_id ||
			 popped.behind)
		hold.end(popped.lease);
	else
	{
		popped.lease->hint = popped.row.hint();
		hold.give_back(popped.lease);
	}
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
