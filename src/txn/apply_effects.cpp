/* The end of a transaction or subtransaction: apply or undo its effects. Nothing here can fail. */
#include "engine/held.h"
#include "engine/hold.h"
#include "engine/invalidate.h"
#include "engine/waiter.h"
#include "pg/stop_point.h"
#include "txn/effects.h"
#include "txn/lock.h"
#include "txn/pending.h"
#include "txn/refill_role.h"

#include <algorithm>

namespace pgq {

bool
still_ours(const LeaseEffect &effect)
{
	return serial_of(effect.lease) == effect.serial;
}

/* Keep a lease LOST whose attempt the scheduler could not count. Returns false for other leases. */
static bool
stays_lost(const LeaseEffect &effect, int64 monotonic)
{
	switch (effect.how)
	{
		case LeaseEnd::kStillLost:
			put_back_lost(effect.lease);
			return true;
		case LeaseEnd::kLostBusy:
		case LeaseEnd::kLostFailing:
			put_off_lost(effect.lease, effect.how == LeaseEnd::kLostFailing, monotonic);
			return true;
		default:
			return false;
	}
}

/*
 * End the lease. But if the job is a waiting job, give its lease back: the row may be unchanged,
 * and a claim that has met the lease may have dropped the job's hint.
 */
static void
end_committed(const LeaseEffect &effect, QueueHold &hold)
{
	if (effect.how == LeaseEnd::kChanged && !was_handed_out(effect.lease))
		hold.give_back(effect.lease);
	else
		hold.end(effect.lease, is_gone(effect.how));
}

static void
commit_lease(const LeaseEffect &effect, int64 monotonic, QueueHold &hold)
{
	switch (effect.kind)
	{
		case LeaseEffect::kClaim:
			SetInvalidVirtualTransactionId(effect.lease->claimer);
			note_wait(effect.lease, monotonic);
			hold.unpin(effect.lease, monotonic);
			break;
		case LeaseEffect::kUse:
			hold.stop_using(effect.lease, false, monotonic);
			break;
		case LeaseEffect::kRevoke:
			/* The job was not cancelled: a cancel ends the lease before this effect is reached. */
			undo_revocation(effect.lease, monotonic, hold);
			break;
		case LeaseEffect::kTell:
			/* The newest effects come first, so waiting sessions are told before the lease ends. */
			hold.tell(effect.lease->key.job_id, end_of(effect.how, effect.dead));
			hold->counters.dead_lettered += effect.dead;
			break;
		case LeaseEffect::kEnd:
		case LeaseEffect::kReap:
			if (stays_lost(effect, monotonic))
				break;
			count_end(effect.lease, effect.how, effect.dead, monotonic, hold);
			end_committed(effect, hold);
			break;
		case LeaseEffect::kHold:
			let_go(effect.lease, hold);
			break;
		case LeaseEffect::kRow:
			/* When all row effects are applied, settle_rows_gone() ends leases without rows. */
			lack_row(effect.lease, effect.gone);
	}
}

/*
 * Undo a claim. If the row of the job has caused an error (note_unreturnable()), the job loses an
 * attempt. If the claim call has returned, lose_claimed() decides. Otherwise the job is given back
 * uncounted, or is set aside if the error was raised while its row was read.
 */
static void
undo_claim(const LeaseEffect &effect, int64 monotonic, QueueHold &hold)
{
	Lease *lease = effect.lease;
	if (pending.is_unreturnable(lease))
		hold.lose(lease, Loss::kUnreturnable, monotonic);
	else if (lease->state != LeaseState::kClaiming && pending.is_unreturned(effect))
	{
		count_end(lease, LeaseEnd::kUncounted, false, monotonic, hold);
		hold.give_back(lease);
	}
	else if (lease->state != LeaseState::kClaiming)
		lose_claimed(lease, monotonic, hold);
	else if (lease == pending.verifying)
		park_lease(lease, monotonic);
	else
		hold.give_back(lease);
}

static void
undo_lease(const LeaseEffect &effect, int64 monotonic, QueueHold &hold)
{
	/* Tell and row effects take effect only at commit, so there is nothing to undo. */
	switch (effect.kind)
	{
		case LeaseEffect::kClaim:
			undo_claim(effect, monotonic, hold);
			break;
		case LeaseEffect::kUse:
			hold.stop_using(effect.lease, false, monotonic);
			break;
		case LeaseEffect::kEnd:
			hold.stop_using(effect.lease, true, monotonic);
			break;
		case LeaseEffect::kRevoke:
			undo_revocation(effect.lease, monotonic, hold);
			break;
		case LeaseEffect::kReap:
			put_back_lost(effect.lease);
			break;
		case LeaseEffect::kHold:
			let_go(effect.lease, hold);
			break;
		case LeaseEffect::kTell:
		case LeaseEffect::kRow:
			break;
	}
}

/*
 * Return the beginning of the last part of [first, last) whose effects belong to one queue slot.
 * The part has at most kHoldMax effects.
 */
static const LeaseEffect *
run_of_one_queue(const LeaseEffect *first, const LeaseEffect *last)
{
	const LeaseEffect *begin = last - 1;
	while (begin > first && last - begin < kHoldMax && begin[-1].ref.queue == last[-1].ref.queue &&
		   begin[-1].ref.generation == last[-1].ref.generation)
		begin--;
	return begin;
}

/*
 * Visit the effects in [first, last) that are still_ours(), newest first. Effects of one queue that
 * follow each other are visited in one hold.
 */
template <typename Visit>
static void
for_each_lease_effect(const LeaseEffect *first, const LeaseEffect *last, Visit visit)
{
	while (last > first)
	{
		const LeaseEffect *begin = run_of_one_queue(first, last);
		(void) change_queue(begin->ref, [&](QueueHold &hold) {
			settle_counts_of(hold);
			for (const LeaseEffect *effect = last; effect-- > begin;)
				if (still_ours(*effect))
					visit(*effect, hold);
		});
		last = begin;
	}
}

/*
 * End the leases whose jobs have no row any more. Called after all row effects are applied: SQL may
 * have inserted a job again before its old row was deleted.
 */
static void
settle_rows_gone(const LeaseEffect *first, const LeaseEffect *last, int64 monotonic)
{
	for_each_lease_effect(first, last, [&](const LeaseEffect &effect, QueueHold &hold) {
		if (effect.kind == LeaseEffect::kRow)
			(void) end_if_rows_gone(effect.lease, monotonic, hold);
	});
}

/*
 * Apply or undo the lease effects in [first, last), newest first. The claim of a lease was
 * registered before the end of the lease, so the lease ends before the effect of the claim would
 * unpin it.
 */
static void
settle_leases(const LeaseEffect *first, const LeaseEffect *last, bool commit)
{
	int64 monotonic = monotonic_now();
	bool rows = false;
	for_each_lease_effect(first, last, [&](const LeaseEffect &effect, QueueHold &hold) {
		rows |= effect.kind == LeaseEffect::kRow;
		commit ? commit_lease(effect, monotonic, hold) : undo_lease(effect, monotonic, hold);
	});
	if (commit && rows)
		settle_rows_gone(first, last, monotonic);
}

static void
file_hints(QueueHints &jobs)
{
	HintEffect *next = jobs.hints.begin();
	bool shed = jobs.is_shed;
	while (next < jobs.hints.end() || shed)
	{
		bool filed = change_queue(jobs.ref, [&](QueueHold &hold) {
			hold.schedule().fire(wall_now());
			settle_counts_of(hold);
			for (int n = 0; n < kHoldMax && next < jobs.hints.end(); n++, next++)
			{
				hold.file(next->hint);
				hold->counters.enqueued += next->jobs;
			}
			if (shed)
				hold.read_again(jobs.shed);
			shed = false;
		});
		if (!filed)
			return invalidate_queue(MyDatabaseId, jobs.incarnation, jobs.ref.queue_id);
	}
}

/* Apply the last options and the last name of each queue; earlier values were never visible. */
static void
settle_descriptions(const List<QueueEffect> &effects)
{
	for (QueueEffect *effect = effects.begin(); effect < effects.end(); effect++)
	{
		auto replaces = [&](const QueueEffect &later) {
			return later.kind == effect->kind && later.ref.queue == effect->ref.queue &&
				   later.ref.generation == effect->ref.generation;
		};
		if (!effect->describes() || std::any_of(effect + 1, effects.end(), replaces))
			continue;
		if (effect->kind == QueueEffect::kName)
			rename_slot(effect->ref, effect->name.text);
		else
			(void) change_queue(effect->ref,
								[&](QueueHold &hold) { hold.set_options(effect->options); });
	}
}

static void
settle_queue(const QueueEffect &effect, bool commit)
{
	if (effect.describes())
		return;
	bool free_it =
		commit == (effect.kind == QueueEffect::kDrop) && effect.kind != QueueEffect::kHold;
	if (free_it)
		free_queue(effect.ref);
	if (free_it || effect.kind == QueueEffect::kCreated)
		return;
	(void) change_queue(effect.ref, [&](QueueHold &hold) {
		hold->holds--;
		if (effect.kind == QueueEffect::kDrop)
			hold->dropping = false;
		hold.all_may_look();
	});
}

/* Clean up after a failed call: abandon its refill, and leave its places in lines and its waits. */
static void
abandon_call()
{
	abandon_refill();
	if (in_lines())
		leave_lines(nullptr);
	if (waits_for_result())
	{
		int32 queue_id;
		(void) end_result_wait(&queue_id);
	}
	abandon_lock_wait();
	abandon_reservation();
}

/* Forget that a claim call was under way, after the effects of the failed call were undone. */
static void
forget_claim_call()
{
	note_verifying(nullptr);
	end_claim_call();
}

static void
at_transaction_end(XactEvent event, void *)
{
	bool commit = event == XACT_EVENT_COMMIT;
	if (event == XACT_EVENT_PRE_PREPARE)
		reserve_watch();
	if (event == XACT_EVENT_PREPARE)
		hand_over_to_entry();
	if (!commit && event != XACT_EVENT_ABORT)
		return;
	release_watch();
	abandon_call();
	if (pending.effects.empty())
	{
		pending.effects = {};
		forget_claim_call();
		return;
	}

	/* Empty the list before applying it: an ABORT that follows finds nothing to undo. */
	Effects ending = pending.effects;
	pending.effects = {};
	if (commit)
		stop_point("commit-settle");
	if (commit)
		interrupt_cancelled(ending.leases);
	begin_counts(ending, commit);
	if (commit)
		settle_duplicates(ending.duplicates);
	pending.settling = ending.leases.begin();
	settle_leases(ending.leases.begin(), ending.leases.end(), commit);
	forget_claim_call();
	if (commit)
	{
		settle_early(ending.early);
		for (QueueHints &jobs : ending.jobs)
			file_hints(jobs);
		finish_counts();
		if (ending.uncounted)
			forget_counts(MyDatabaseId);
		if (ending.deleted)
			note_deletions(MyDatabaseId);
		if (ending.unfiled)
			invalidate_all(MyDatabaseId);
		if (ending.all_children || ending.told.size > 0)
			settle_told(ending);
		if (ending.definitions)
			tell_of_definitions(MyDatabaseId);
		settle_descriptions(ending.queues);
		if (ending.announce || ending.announce_queue)
			announce_extension();
	}
	settle_batches(ending, commit);
	settle_locks(ending.locks.begin(), ending.locks.end(), commit);
	forget_rates(ending.rates.begin(), ending.rates.end());
	/* Settle queue effects newest first: a purge ends before an older effect frees the slot. */
	for (int i = ending.queues.size - 1; i >= 0; i--)
		settle_queue(ending.queues.items[i], commit);
}

template <typename Effect>
static Effect *
first_of(List<Effect> &list, SubTransactionId sub)
{
	Effect *first = list.end();
	while (first > list.begin() && first[-1].tag.belongs_to(sub))
		first--;
	return first;
}

template <typename Effect>
static void
promote(List<Effect> &list, SubTransactionId sub, SubTransactionId parent)
{
	for (Effect *e = list.end(); e > list.begin() && e[-1].tag.sub == sub; e--)
		e[-1].tag = {.sub = parent, .from = sub};
}

static void
undo_subtransaction(SubTransactionId sub)
{
	LeaseEffect *leases = first_of(pending.effects.leases, sub);
	LeaseEffect *leases_end = pending.effects.leases.end();
	pending.settling = pending.effects.leases.begin();
	pending.effects.leases.size = static_cast<int>(leases - pending.settling);
	/* Undo lease effects first and queue effects last. The order in between does not matter. */
	settle_leases(leases, leases_end, false);
	forget_claim_call();
	undo_counts(sub);
	undo_duplicates(sub);
	undo_early(sub);
	undo_batches(sub);
	undo_members_in_hand(sub);
	undo_own_results(sub);
	LockEffect *locks = first_of(pending.effects.locks, sub);
	settle_locks(locks, pending.effects.locks.end(), false);
	pending.effects.locks.size = static_cast<int>(locks - pending.effects.locks.begin());
	RateEffect *rates = first_of(pending.effects.rates, sub);
	forget_rates(rates, pending.effects.rates.end());
	pending.effects.rates.size = static_cast<int>(rates - pending.effects.rates.begin());

	for (QueueHints &jobs : pending.effects.jobs)
		jobs.hints.size = static_cast<int>(first_of(jobs.hints, sub) - jobs.hints.begin());

	QueueEffect *queues = first_of(pending.effects.queues, sub);
	while (pending.effects.queues.end() > queues)
	{
		QueueEffect effect = pending.effects.queues.items[--pending.effects.queues.size];
		settle_queue(effect, false);
	}
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		abandon_call();
		undo_subtransaction(mine);
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		promote(pending.effects.leases, mine, parent);
		for (QueueHints &jobs : pending.effects.jobs)
		{
			/*
			 * Shed the parent's hints before the promotion: the promoted hints may still be undone
			 * without the hints of the parent.
			 */
			shed_hints(&jobs, static_cast<int>(first_of(jobs.hints, mine) - jobs.hints.begin()),
					   parent);
			promote(jobs.hints, mine, parent);
		}
		promote_counts(mine, parent);
		promote_batches(mine, parent);
		promote(pending.effects.duplicates, mine, parent);
		promote(pending.effects.early, mine, parent);
		promote(pending.effects.members_in_hand, mine, parent);
		promote(pending.effects.results.list, mine, parent);
		promote(pending.effects.queues, mine, parent);
		promote(pending.effects.locks, mine, parent);
		promote(pending.effects.rates, mine, parent);
	}
}

void
effects_init()
{
	RegisterXactCallback(at_transaction_end, nullptr);
	RegisterSubXactCallback(at_subtransaction_end, nullptr);
}

} // namespace pgq
