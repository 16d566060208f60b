/*
 * Giving back fleeting leases of waiting jobs (steps/README.md) before their transaction ends, and
 * the effects that the transaction's commit still has to apply for these jobs.
 */
#include "engine/hold.h"
#include "txn/effects.h"
#include "txn/pending.h"

#include <algorithm>

namespace pgq {

static bool
are_newest(const Lease *lease, int n)
{
	const List<LeaseEffect> &leases = pending.effects.leases;
	return leases.size >= n &&
		   std::all_of(leases.end() - n, leases.end(), [=](const LeaseEffect &effect) {
			   return effect.lease == lease && still_ours(effect);
		   });
}

/* Push an EarlyEffect. The caller has reserved a place for the effect. */
static void
push_early(const QueueRef &ref, int64 job_id, int64 group, JobEnd end)
{
	pending.effects.early.push({current_tag(), ref, job_id, group, end});
}

void
note_early(const QueueRef &ref, int64 job_id, int64 group, JobEnd end)
{
	pending.effects.early.reserve(1);
	push_early(ref, job_id, group, end);
}

void
let_go_early(const QueueRef &ref, Lease *lease, JobEnd end)
{
	static constexpr int kEffects = 2;
	if (!are_newest(lease, kEffects))
		return;
	pending.effects.early.reserve(1);
	forget_lease_effects(kEffects);
	(void) change_queue(ref, [&](QueueHold &hold) {
		push_early(ref, lease->key.job_id, lease->hint.group, end);
		hold.give_back(lease);
	});
}

void
undo_early(SubTransactionId mine)
{
	List<EarlyEffect> &early = pending.effects.early;
	while (early.size > 0 && early.end()[-1].tag.belongs_to(mine))
		early.size--;
}

/*
 * Return the end of the first part of [first, last) whose effects belong to one queue slot. The
 * part has at most kHoldMax effects.
 */
static const EarlyEffect *
end_of_run(const EarlyEffect *first, const EarlyEffect *last)
{
	const EarlyEffect *end = first + 1;
	while (end < last && end - first < kHoldMax && end->ref.queue == first->ref.queue &&
		   end->ref.generation == first->ref.generation)
		end++;
	return end;
}

void
settle_early(const List<EarlyEffect> &early)
{
	for (const EarlyEffect *first = early.begin(), *end; first < early.end(); first = end)
	{
		end = end_of_run(first, early.end());
		(void) change_queue(first->ref, [&](QueueHold &hold) {
			settle_counts_of(hold);
			for (const EarlyEffect *effect = first; effect < end; effect++)
			{
				hold.tell(effect->job_id, effect->end);
				hold->counters.dead_lettered += effect->end == JobEnd::kDead;
				hold.look_at_group(effect->group);
			}
		});
	}
}

} // namespace pgq
