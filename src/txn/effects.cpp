#include "txn/effects.h"

#include "engine/held.h"
#include "engine/hold.h"
#include "engine/invalidate.h"
#include "pg/virtual_xid.h"
#include "txn/pending.h"

#include <algorithm>

namespace pgq {

constinit Pending pending = {};

Tag
current_tag()
{
	return {GetCurrentSubTransactionId(), InvalidSubTransactionId};
}

void
reserve_lease_effects(int n)
{
	pending.effects.leases.reserve(n);
}

static void
add_lease_effect(LeaseEffect::Kind kind, LeaseEnd how, const QueueRef &ref, Lease *lease)
{
	pending.effects.leases.push(
		{kind, how, false, {}, current_tag(), ref, lease, serial_of(lease)});
}

void
add_claim_effect(const QueueRef &ref, Lease *lease)
{
	add_lease_effect(LeaseEffect::kClaim, LeaseEnd::kLost, ref, lease);
}

void
forget_lease_effects(int n)
{
	Assert(n <= pending.effects.leases.size);
	pending.effects.leases.size -= n;
}

void
begin_claim_call()
{
	pending.first_unreturned = pending.effects.leases.size + 1;
}

void
end_claim_call()
{
	pending.first_unreturned = 0;
}

void
note_verifying(const Lease *lease)
{
	pending.verifying = lease;
	pending.unreturnable = false;
}

void
note_unreturnable()
{
	pending.unreturnable = pending.verifying != nullptr;
}

void
end_at_commit(const QueueRef &ref, Lease *lease, LeaseEnd how)
{
	add_lease_effect(LeaseEffect::kEnd, how, ref, lease);
	use_lease(lease, my_virtual_xid(), true);
}

void
use_to_the_end(const QueueRef &ref, Lease *lease)
{
	add_lease_effect(LeaseEffect::kUse, LeaseEnd::kUncounted, ref, lease);
	use_lease(lease, my_virtual_xid(), false);
}

void
revoke_until_end(const QueueRef &ref, Lease *lease)
{
	add_lease_effect(LeaseEffect::kRevoke, LeaseEnd::kUncounted, ref, lease);
	lease->revoked++;
}

bool
hold_to_the_end(const QueueRef &ref, Lease *lease)
{
	pending.holder = my_virtual_xid();
	if (lease->state == LeaseState::kClaiming)
		begin_hold(lease);
	else if (!add_holder(lease))
		return false;
	add_lease_effect(LeaseEffect::kHold, LeaseEnd::kChanged, ref, lease);
	return true;
}

void
undo_hold(const QueueRef &ref, Lease *lease, bool used)
{
	forget_lease_effects(used ? 2 : 1);
	(void) change_queue(ref, [&](QueueHold &hold) { let_go(lease, hold); });
}

/*
 * Note that this transaction moves the row of a job to another segment. If any job that this
 * transaction moves is due, a claim that finds the queue empty waits for this transaction.
 */
static void
note_mover(QueueHold &hold, const Hint &hint)
{
	VirtualTransactionId me = my_virtual_xid();
	TimestampTz due = hint.delayed ? hint.key.run_at : DT_NOBEGIN;
	bool first = !VirtualTransactionIdEquals(hold->mover, me);
	hold->mover = me;
	hold->mover_due = first ? due : Min(hold->mover_due, due);
}

void
tell_at_commit(const QueueRef &ref, Lease *lease, LeaseEnd how, bool dead)
{
	add_lease_effect(LeaseEffect::kTell, how, ref, lease);
	pending.effects.leases.end()[-1].dead = dead;
}

TakeResult
take_lease_to_end(const QueueRef &ref, const Hint &hint, LeaseEnd how, Lease **lease,
				  VirtualTransactionId *mover)
{
	bool moving = how == LeaseEnd::kMoved;
	TakeResult result = TakeResult::kHeld;
	SetInvalidVirtualTransactionId(*mover);
	reserve_lease_effects(2);
	(void) change_queue(ref, [&](QueueHold &hold) {
		/*
		 * A purge or drop of the queue has already waited for the open moves. Begin no new move:
		 * the purge or drop would not see the row that is being moved.
		 */
		if (moving && hold->holds > 0)
			return;
		result = take_lease(hold.queue(), hint, lease, true);
		if (result != TakeResult::kTaken)
		{
			if (*lease != nullptr && (*lease)->queue == hold.queue() && is_moving(*lease))
				*mover = hold->mover;
			return;
		}
		add_claim_effect(ref, *lease);
		end_at_commit(ref, *lease, how);
		if (moving)
			note_mover(hold, hint);
	});
	return result;
}

TakeResult
take_lease_to_change(const QueueRef &ref, const Hint &hint, LeaseEnd how, Lease **lease,
					 bool *fleeting)
{
	TakeResult result = TakeResult::kHeld;
	reserve_lease_effects(2);
	(void) change_queue(ref, [&](QueueHold &hold) {
		result = hold.take_waiting(hint, lease, fleeting);
		if (result != TakeResult::kTaken)
			return;
		add_claim_effect(ref, *lease);
		end_at_commit(ref, *lease, how);
	});
	return result;
}

void
add_reap_effect(const QueueRef &ref, Lease *lease)
{
	add_lease_effect(LeaseEffect::kReap, LeaseEnd::kLost, ref, lease);
}

static LeaseEffect *
ending_effect(const Lease *lease)
{
	LeaseEffect *effect = pending.effects.leases.end();
	do
		effect--;
	while (effect->lease != lease || !effect->ends());
	Assert(effect >= pending.effects.leases.begin());
	return effect;
}

/*
 * Leave out jobs that were ended by their ids: such a job keeps its slot, since its worker goes on
 * until it learns of that.
 */
int
own_ends(const QueueRef &ref, int most, Lender *lenders)
{
	int n = 0;
	const List<LeaseEffect> &leases = pending.effects.leases;
	for (const LeaseEffect *effect = leases.end(); n < most && effect-- > leases.begin();)
		if (effect->kind == LeaseEffect::kEnd && !is_by_id(effect->how) &&
			effect->ref.queue == ref.queue)
			lenders[n++] = {effect->lease, effect->serial};
	return n;
}

void
set_end(const Lease *lease, LeaseEnd how)
{
	ending_effect(lease)->how = how;
}

void
set_dead(const Lease *lease)
{
	ending_effect(lease)->dead = true;
}

int
open_claims(OpenClaim **claims)
{
	List<LeaseEffect> &leases = pending.effects.leases;
	int n = 0;
	*claims = static_cast<OpenClaim *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (leases.size + 1) * sizeof(OpenClaim)));
	for (const LeaseEffect &effect : leases)
		if (effect.kind == LeaseEffect::kClaim || effect.kind == LeaseEffect::kUse ||
			effect.kind == LeaseEffect::kHold)
			(void) look_at_queue(effect.ref, [&](const Queue &) {
				const Lease *lease = effect.lease;
				/*
				 * Skip a job whose row this transaction has written: a held job that the
				 * transaction also uses, and a job whose lease the transaction ends. Do not skip a
				 * job that another transaction is cancelling.
				 */
				bool held = lease->state == LeaseState::kHeld;
				bool written = lease->ending && is_me(lease->user);
				if (still_ours(effect) && !written && held == (effect.kind == LeaseEffect::kHold))
					(*claims)[n++] = {lease->key.job_id, lease->hint.place, held};
			});
	return n;
}

static QueueHints *
hints_of(const QueueRef &ref)
{
	/* Search from the end: a transaction mostly touches the queue that it touched last. */
	for (int i = pending.effects.jobs.size - 1; i >= 0; i--)
	{
		QueueHints &jobs = pending.effects.jobs.items[i];
		if (jobs.ref.queue == ref.queue && jobs.ref.generation == ref.generation)
			return &jobs;
	}
	return nullptr;
}

bool
has_new_hints(const QueueRef &ref)
{
	const QueueHints *jobs = hints_of(ref);
	return jobs != nullptr && (jobs->hints.size > 0 || jobs->is_shed);
}

/*
 * Keep as many hints of the subtransaction as fit into a window: those with the smallest keys. Drop
 * its other hints, but note their smallest key and smallest timer key, so that the commit pulls the
 * cursors back to these. The hints of `sub` before `end` are contiguous, since only the innermost
 * open subtransaction registers effects. Returns the new end of these hints.
 */
static HintEffect *
shed_run(QueueHints *jobs, HintEffect *end, SubTransactionId sub)
{
	HintEffect *first = end;
	while (first > jobs->hints.begin() && first[-1].tag.sub == sub)
		first--;
	if (end - first < 2 * window_size)
		return end;
	HintEffect *keep = first + window_size;
	std::nth_element(first, keep, end, [](const HintEffect &a, const HintEffect &b) {
		return a.hint.key < b.hint.key;
	});

	/*
	 * Hints that were promoted from a child now belong to `sub` alone: the child can no longer be
	 * aborted by itself.
	 */
	for (HintEffect *e = first; e < keep; e++)
		e->tag.from = InvalidSubTransactionId;
	for (HintEffect *e = keep; e < end; e++)
	{
		first->jobs += e->jobs;
		if (!jobs->is_shed)
			jobs->shed = ChangedRows::none();
		jobs->is_shed = true;
		jobs->shed.add(e->hint);
	}
	return keep;
}

void
shed_hints(QueueHints *jobs, int run_end, SubTransactionId sub)
{
	if (jobs->hints.size < jobs->shed_at)
		return;
	HintEffect *end = jobs->hints.begin() + run_end;
	HintEffect *kept = shed_run(jobs, end, sub);
	int rest = jobs->hints.size - run_end;
	memmove(kept, end, rest * sizeof(HintEffect));
	jobs->hints.size = static_cast<int>(kept - jobs->hints.begin()) + rest;
	/*
	 * The list may be full of hints of other open subtransactions, which cannot be shed now. So do
	 * not try again at every call.
	 */
	jobs->shed_at = Max(2 * jobs->hints.size, 2 * window_size);
}

void
reserve_hints(const QueueRef &ref, Oid incarnation, int n)
{
	QueueHints *jobs = hints_of(ref);
	if (jobs == nullptr)
	{
		pending.effects.jobs.reserve(1);
		pending.effects.jobs.push(
			QueueHints{.ref = ref, .incarnation = incarnation, .shed_at = 2 * window_size});
		jobs = hints_of(ref);
	}
	shed_hints(jobs, jobs->hints.size, GetCurrentSubTransactionId());
	jobs->hints.reserve(n);
}

void
add_hint(const QueueRef &ref, const Hint &hint, bool is_new)
{
	if (!hint.delayed)
		raise_clock_mark(ref.queue->database, hint.key.run_at);
	/*
	 * Reserve again: an index expression that the owner has added may have enqueued further jobs
	 * while the row was written.
	 */
	List<HintEffect> &hints = hints_of(ref)->hints;
	hints.reserve(1);
	hints.push({current_tag(), is_new ? 1 : 0, hint});
}

void
note_unfiled_job()
{
	pending.effects.unfiled = true;
}

void
note_deleted_jobs()
{
	pending.effects.deleted = true;
}

void
note_changed_definitions()
{
	pending.effects.definitions = true;
}

void
note_uncounted_rows()
{
	pending.effects.uncounted = true;
}

bool
has_unfiled_jobs()
{
	return pending.effects.unfiled;
}

static void
add_queue_effect(QueueEffect::Kind kind, const QueueRef &ref, const QueueOptions &options = {})
{
	pending.effects.queues.reserve(1);
	pending.effects.queues.push({kind, current_tag(), ref, options, {}});
}

void
reserve_created_effect()
{
	pending.effects.queues.reserve(1);
}

void
add_created_effect(const QueueRef &ref)
{
	add_queue_effect(QueueEffect::kCreated, ref);
}

void
hold_queue(const QueueRef &ref)
{
	add_queue_effect(QueueEffect::kHold, ref);
	(void) change_queue(ref, [](QueueHold &hold) { hold->holds++; });
}

void
drop_queue_at_commit(const QueueRef &ref)
{
	add_queue_effect(QueueEffect::kDrop, ref);
	(void) change_queue(ref, [](QueueHold &hold) {
		hold->holds++;
		hold->dropping = true;
		hold->dropper = my_virtual_xid();
	});
}

void
set_options_at_commit(const QueueRef &ref, const QueueOptions &options)
{
	add_queue_effect(QueueEffect::kOptions, ref, options);
}

void
rename_queue_at_commit(const QueueRef &ref, const char *name)
{
	add_queue_effect(QueueEffect::kName, ref);
	QueueName *text = &pending.effects.queues.end()[-1].name;
	strlcpy(text->text, name, sizeof(text->text));
}

void
announce_at_commit()
{
	pending.effects.announce = true;
}

void
announce_queue_at_commit()
{
	pending.effects.announce_queue = true;
}

} // namespace pgq
