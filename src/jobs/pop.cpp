#include "jobs/round.h"

#include "catalog/token_mark.h"
#include "engine/concurrency.h"
#include "engine/group.h"
#include "engine/hold.h"
#include "engine/rate_limit.h"
#include "engine/share.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Without a scheduler that can do it nobody counts lost leases; after 5 s their jobs go out
 * uncounted, or a stopped scheduler would stop the queue. worker/README.md, "Lost leases" (protocol:
 * uncounted-without-scheduler).
 */
static void
take_over_from_scheduler(Queue *queue, int64 monotonic)
{
	static constexpr int64 kLostForLong = 5 * USECS_PER_SEC;
	if (is_served(queue, monotonic))
		return;
	expire_due(queue, monotonic);
	for (int i = 0; i < kHoldMax; i++)
	{
		Lease *lease = first_lost(queue);
		if (lease == nullptr || monotonic - lease->deadline < kLostForLong)
			break;
		queue->counters.uncounted++;
		give_back(lease);
	}
}

/* What time has brought: jobs that are due, parked ones to be tried again, leases that nobody counts. */
static void
let_time_pass(const Round &round, QueueHold &hold)
{
	int64 monotonic = monotonic_now();
	if (round.refilled)
		hold.schedule().notice_step_back(wall_now());
	else
		hold.schedule().fire(wall_now());
	/* Who waits for one of these is not woken by us: we take them ourselves, and pass on what is left. */
	if (round.first)
		unpark_due(hold.queue(), monotonic);
	take_over_from_scheduler(hold.queue(), monotonic);
}

static PopResult
short_of(Round *round, Shortage shortage)
{
	round->shortage = shortage;
	return PopResult::kShort;
}

static void
note_taken(Round *round, const QueueHold &hold, Lease *lease, const Hint &hint)
{
	Popped &popped = round->popped[round->n++];
	popped.hint = hint;
	popped.lease = lease;
	popped.serial = serial_of(lease);
	popped.token = token_of(lease);
	popped.grouped = has_group_rules(hold.queue());
	popped.from = hold.schedule().floor_of(hint.group);
	add_claim_effect(round->ref, lease);
}

/* A slot of those that this transaction lends, if there is one. */
static Lease *
next_lender(Round *round)
{
	while (round->lenders.n > 0)
	{
		const Lender &lender = round->lenders.leases[--round->lenders.n];
		if (serial_of(lender.lease) == lender.serial && lender.lease->slot)
			return lender.lease;
	}
	return nullptr;
}

/* False: as many run, or have started, as may. */
static bool
find_slot(Round *round, Queue *queue, Lease **lender)
{
	bool free = room_to_run(queue) > 0;
	*lender = nullptr;
	if (room_to_start(queue) == 0)
		return false;
	if (!free && !runs_too_many(queue))
		*lender = next_lender(round);
	return free || *lender != nullptr;
}

/* Take the lease of a job that was admitted. Returns what is missing for that. */
static Shortage
take_admitted(Round *round, QueueHold &hold, const Hint &hint, Lease *lender)
{
	Lease *lease;
	TakeResult taken = take_lease(hold.queue(), hint, &lease);
	switch (taken)
	{
		case TakeResult::kTaken:
			lender == nullptr ? occupy_slot(lease) : lend_slot(lender, lease);
			count_in_group(lease);
			note_taken(round, hold, lease, hint);
			break;
		case TakeResult::kHeld:
			/* One hint too many: whoever ends that lease files the job again. */
			note_missed(hold.queue(), lease, hint);
			break;
		case TakeResult::kFull:
			hold.schedule().take_back(hint);
			break;
	}
	if (taken != TakeResult::kTaken)
		hold.schedule().left(hint);
	return taken == TakeResult::kFull ? Shortage::kLeases : Shortage::kNone;
}

/* Pop a hint and take its lease, if its group has room. Returns what is missing for that. */
static Shortage
pop_one(Round *round, QueueHold &hold, Lease *lender)
{
	Hint hint = hold.schedule().pop();
	if (!hold.schedule().admit(hint))
		return Shortage::kNone;
	return take_admitted(round, hold, hint, lender);
}

/* Pop until there are as many as are wanted, no more hints, or (then it is a shortage) no more leases or slots. */
static void
take_leases(Round *round, QueueHold &hold, int most)
{
	Schedule &schedule = hold.schedule();
	for (int looked_at = 0;
		 round->n < most && looked_at < kHoldMax && round->shortage == Shortage::kNone; looked_at++)
	{
		schedule.clear_way();
		if (!schedule.poppable())
			break;
		int before = round->n;
		Lease *lender;
		bool room = find_slot(round, hold.queue(), &lender);
		round->shortage = room ? pop_one(round, hold, lender) : Shortage::kFull;
		if (lender != nullptr && round->n == before)
			round->lenders.n++;
	}
}

/* Nothing was popped and nothing can be: why? */
static PopResult
what_is_missing(Round *round, const QueueHold &hold)
{
	const Schedule &schedule = hold.schedule();
	if (schedule.hides_due() && schedule.wants_timer_refill())
		return PopResult::kRefill;
	if (schedule.wants_visit())
		return PopResult::kVisit;
	if (schedule.wants_step())
		return PopResult::kStep;
	if (schedule.wants_window_refill())
		return PopResult::kRefill;
	if (!hold.schedule().exhausted())
		return PopResult::kWaitForRefill;
	/* It may have a job in hand that was to be ours. Those that are due later would not have been. */
	if (hold->mover_due <= wall_now())
		round->mover = hold->mover;
	return short_of(round, Shortage::kEmpty);
}

/*
 * If the queue gives any: note what time has brought; see how many may be popped, and with
 * which tokens; take their leases; wake the next in line if there are more.
 */
static PopResult
pop_under_lock(Round *round, QueueHold &hold)
{
	Schedule &schedule = hold.schedule();
	int most = round->most;
	if (hold->holds > 0 || hold->options.paused)
		return short_of(round, Shortage::kHeld);
	round->options = hold->options;
	round->options_set = hold->options_set;
	if (!count_some(hold.queue()))
		return PopResult::kPopped;
	let_time_pass(*round, hold);
	schedule.clear_way();

	/* Many jobs of the database are locked by somebody: a queue with none of them goes on, one by one. */
	if (too_many_parked(hold->database->share))
	{
		if (hold->parked_count > 0)
			return short_of(round, Shortage::kLocked);
		most = 1;
	}
	bool full = room_to_run(hold.queue()) == 0 && round->lenders.n == 0;
	if (schedule.poppable() && (full || room_to_start(hold.queue()) == 0))
		return short_of(round, Shortage::kFull);
	if (schedule.poppable() && !token_mark_is_ahead(hold->database, kTokenLead))
		return PopResult::kTokenMark;
	take_leases(round, hold, most);
	/* What has room yet is no news: who is passed on to looks for it. */
	if (schedule.take_news() > 0)
		hold.pass_on();
	if (round->shortage != Shortage::kNone)
		return round->n > 0 ? PopResult::kPopped : PopResult::kShort;
	if (round->n > 0 && room_to_run(hold.queue()) > 0 && room_to_start(hold.queue()) > 0)
		hold.pass_on();
	if (round->n > 0 || schedule.poppable())
		return PopResult::kPopped;
	return what_is_missing(round, hold);
}

PopResult
pop(Round *round)
{
	PopResult result = PopResult::kShort;
	round->n = 0;
	if (!change_queue(round->ref, [&](QueueHold &hold) { result = pop_under_lock(round, hold); }))
		return short_of(round, Shortage::kDropped);
	return result;
}

} // namespace pgq
