#include "jobs/round.h"

#include "engine/hold.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Somebody has moved the job to another queue by hand. Filed there after its lease
 * here has ended, not before: a claim of that queue drops hints of leased jobs.
 */
static void
file_in_its_queue(const Database *db, const JobRow &row)
{
	QueueRef ref;
	if (find_attached_queue(db, row.queue_id(), &ref))
		(void) change_queue(ref, [&](QueueHold &hold) { hold.file(row.hint()); });
	/* Otherwise it will be read from the heap as a whole. */
}

static void
settle_lease(const QueueRef &ref, const Popped &popped, int64 monotonic, QueueHold &hold)
{
	hold->counters.ghosts += popped.ghost;
	if (popped.fits(ref))
		add_claim_effect(ref, popped.lease);
	else if (popped.verdict == Verdict::kBusy)
		park_lease(popped.lease, monotonic);
	else if (popped.verdict == Verdict::kDead || popped.row.queue_id() != ref.queue_id ||
			 popped.behind)
		hold.end(popped.lease);
	else
	{
		popped.lease->hint = popped.row.hint();
		hold.give_back(popped.lease);
	}
}

void
settle(Round *round)
{
	const QueueRef &ref = round->ref;
	/* The effects of all, which are the newest, are registered again for those that fit. */
	forget_lease_effects(round->n);
	(void) change_queue(ref, [&](QueueHold &hold) {
		int64 monotonic = monotonic_now();
		for (int i = 0; i < round->n; i++)
			settle_lease(ref, round->popped[i], monotonic, hold);
	});
	for (int i = 0; i < round->n; i++)
	{
		const Popped &popped = round->popped[i];
		if (popped.verdict == Verdict::kLive && popped.row.queue_id() != ref.queue_id)
			file_in_its_queue(ref.queue->database, popped.row);
	}
}

} // namespace pgq
