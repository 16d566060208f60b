/*
 * Taking jobs from one queue, a round at a time, and handing them out.
 */
#include "catalog/subscription.h"
#include "catalog/tables.h"
#include "catalog/token_mark.h"
#include "engine/hold.h"
#include "engine/token.h"
#include "jobs/round.h"
#include "jobs/session_lease.h"
#include "load/groups.h"
#include "pg/stop_point.h"
#include "ring/move.h"
#include "txn/effects.h"

namespace pgq {

/* ---- what stops a round ---- */

/*
 * Wait until whoever refills has finished or given up, in the lock manager, for as long as
 * that takes; the caller looks again. What has an end is the time beside that: if there is
 * nobody to wait for, and there are no jobs all the same.
 */
static void
wait_for_refill(const QueueRef &ref, Patience *patience)
{
	static constexpr int64 kLongest = 10 * USECS_PER_SEC;
	static constexpr long kNap = 1000;
	int64 before = monotonic_now();
	patience->since = patience->since == 0 ? before : patience->since;
	if (before - patience->since > kLongest)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("queue \"%s\" is being loaded by another process, which makes no progress",
						ref.queue->name)));
	if (wait_for_refills(ref))
	{
		patience->since += monotonic_now() - before;
		return;
	}
	/* It may just have ended. */
	if (patience->idle++ > 0)
		pg_usleep(kNap);
}

/* Returns false if it was not possible yet. */
static bool
refill(Round *round)
{
	/* The timer first: as long as its cursor is behind the clock, every tick asks for a new window. */
	RefillResult timer = refill_timer(round->ref, true);
	RefillResult window = refill_window(round->ref, true);
	round->refilled = timer == RefillResult::kDone || window == RefillResult::kDone;
	return timer != RefillResult::kNotReady && window != RefillResult::kNotReady;
}

/*
 * A job that its mover had in hand when we found nothing is there when it has ended: look again. As
 * often as there is another such mover: while we wait for one, what was not due yet or in
 * somebody's hands can become due and get into those of the next. A rotation moves a row once.
 */
static void
look_again(Round *round)
{
	if (!VirtualTransactionIdIsValid(round->mover))
		return;
	wait_for_mover(round->ref, round->mover);
	SetInvalidVirtualTransactionId(round->mover);
	round->shortage = Shortage::kNone;
}

/* As many run as may. Some of them may be what we have just taken in vain, or what this transaction ends. */
static void
find_room(Round *round, int unfit)
{
	Lenders *lenders = &round->lenders;
	bool found = unfit > 0;
	if (!found && !lenders->asked)
	{
		lenders->asked = true;
		lenders->n = own_ends(round->ref, kRoundMax, lenders->leases);
		found = lenders->n > 0;
	}
	if (found)
		round->shortage = Shortage::kNone;
}

/* What the next round needs, or there will be none. */
static void
clear_the_way(Round *round, PopResult result, int unfit, bool nothing_yet)
{
	round->first = round->refilled = false;
	bool must_wait = result == PopResult::kWaitForRefill;
	if (result == PopResult::kVisit)
		must_wait = visit_groups(round->ref, true) == RefillResult::kNotReady;
	if (result == PopResult::kStep)
		must_wait = step_of_lap(round->ref, true) == RefillResult::kNotReady;
	if (result == PopResult::kTokenMark)
		advance_token_mark(kTokenLead, true, synchronous_commit);
	if (result == PopResult::kRefill)
		must_wait = !refill(round);
	if (must_wait)
		wait_for_refill(round->ref, &round->patience);
	else
		round->patience = {};
	if (round->shortage == Shortage::kEmpty && nothing_yet)
		look_again(round);
	if (round->shortage == Shortage::kFull)
		find_room(round, unfit);
}

/* ---- one queue ---- */

/* Look at the rows of what was popped; what fits is the claim's. Returns how many do not. */
static int
take_popped(Round *round, Claim *claim, MemoryContext scratch)
{
	if (round->n == 0)
		return 0;
	stop_point("claim-verify");
	int unfit = verify(round, claim, scratch);
	if (unfit == 0)
		return 0;
	stop_point("claim-settle");
	settle(round);
	return unfit;
}

Shortage
claim_from(const QueueRef &ref, Claim *claim)
{
	/* What a row takes of the scratch memory is freed with it, the rest with the round. */
	int wanted = claim->options->max_jobs;
	refuse_if_subscribed();
	Round round{};
	round.ref = ref;
	round.first = true;
	round.popped = static_cast<Popped *>(palloc(Min(kRoundMax, wanted) * sizeof(Popped)));
	round.lenders.leases = static_cast<Lender *>(palloc(kRoundMax * sizeof(Lender)));
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_claim", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	if (any_prepared())
		resolve_prepared();
	while (round.shortage == Shortage::kNone && claim->n < wanted)
	{
		round.most = Min(kRoundMax, wanted - claim->n);
		reserve_lease_effects(round.most);
		PopResult result = pop(&round);
		int unfit = take_popped(&round, claim, scratch);
		clear_the_way(&round, result, unfit, claim->n == 0);
		MemoryContextReset(scratch);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
	pfree(round.lenders.leases);
	pfree(round.popped);
	return round.shortage;
}

/* ---- handing out ---- */

/* Those from `first` on that one hold handles: of one queue. Returns where they end. */
static int
end_of_run(const Claim &claim, int first)
{
	int end = first + 1;
	while (end < claim.n && end - first < kHoldMax &&
		   claim.ready[end].ref.queue == claim.ready[first].ref.queue)
		end++;
	return end;
}

/*
 * Return whether the lease has to begin now instead of at the look at the row: a lease lasts from the hand-out, but up to
 * a hundredth of its time may pass before, so that mostly the end that the caller was told stays.
 */
static bool
begins_late(const Ready &ready, int64 monotonic)
{
	static constexpr int64 kLittle = 100 * 1000;
	return monotonic - ready.monotonic > Min(ready.hand_out.lease_time / 128, kLittle);
}

/* Under the queue's lock. */
static void
hand_out_one(QueueHold &hold, Ready *ready, int64 monotonic, HandedOut *result)
{
	/* A slot that was freed and attached again has other leases. */
	if (serial_of(ready->lease) != ready->serial)
		return;
	/* Its row has been deleted by hand since it was looked at; or was, and is there again. */
	if (ready->lease->rows_gone.at_all > 0)
		return hold.end(ready->lease);
	if (ready->lease->doomed)
		return hold.give_back(ready->lease);
	/* The queue was paused, or another limit set: the new ones hold. Or the token is above the mark: the next claim advances that. */
	if (ready->options_set != hold->options_set || is_above_mark(hold->database, ready->token))
		return hold.give_back(ready->lease);
	/* The scheduler ends it, as in verify_one(). */
	if (ready->expires_at != DT_NOEND && ready->expires_at <= wall_now())
		return hold.end(ready->lease);
	if (begins_late(*ready, monotonic))
	{
		ready->monotonic = monotonic;
		ready->now = wall_now();
		result->renewed++;
	}
	hand_out(ready->lease, ready->hand_out, ready->monotonic, ready->now);
	ready->handed_out = true;
	result->jobs++;
}

HandedOut
hand_out_all(Claim *claim)
{
	HandedOut result{};
	int64 monotonic = claim->n > 0 ? monotonic_now() : 0;
	for (int first = 0, end; first < claim->n; first = end)
	{
		end = end_of_run(*claim, first);
		(void) change_queue(claim->ready[first].ref, [&](QueueHold &hold) {
			for (Ready *ready = &claim->ready[first]; ready < &claim->ready[end]; ready++)
				hand_out_one(hold, ready, monotonic, &result);
		});
	}
	for (int i = 0; i < claim->n && claim->options->session_bound; i++)
		if (const Ready &ready = claim->ready[i]; ready.handed_out)
			note_session_lease(ready.ref, ready.lease, ready.serial);
	result.kept = claim->n - result.jobs;
	return result;
}

} // namespace pgq
