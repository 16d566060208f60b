#include "claim/pop.h"

#include "catalog/token_mark.h"
#include "engine/concurrency.h"
#include "engine/group.h"
#include "engine/hold.h"
#include "engine/lease_expiry.h"
#include "engine/lease_quota.h"
#include "engine/rate_limit.h"
#include "txn/effects.h"

namespace pgq {

/*
 * If no scheduler has been able to count lost leases lately, give back jobs whose leases have been
 * lost for 5 s, without counting the attempts. Otherwise a stopped scheduler would stop the queue.
 * See worker/README.md, "Lost leases" (protocol: uncounted-without-scheduler).
 */
static void
take_over_from_scheduler(Queue *queue, int64 monotonic)
{
	static constexpr int64 kLostForLong = 5 * USECS_PER_SEC;
	if (is_served(queue, monotonic))
		return;
	(void) expire_due(queue, monotonic);
	for (int i = 0; i < kHoldMax; i++)
	{
		Lease *lease = first_lost(queue);
		if (lease == nullptr || monotonic - lease->deadline < kLostForLong)
			break;
		queue->counters.uncounted++;
		give_back(lease);
	}
}

/*
 * Apply the passage of time: move the hints of jobs that have become due from the timer into the
 * window (not after a refill), file jobs again that were set aside (only in the first round), and
 * take over lost leases that no scheduler counts.
 */
static void
let_time_pass(const Round &round, QueueHold &hold)
{
	int64 monotonic = monotonic_now();
	if (round.refilled)
		hold.schedule().notice_step_back(wall_now());
	else
		hold.schedule().fire(wall_now());
	/*
	 * Do not call hold.unpark_due(), which would wake a waiter for each job: this claim takes the
	 * jobs itself, and wakes one waiter if jobs are left.
	 */
	if (round.first)
		unpark_due(hold.queue(), monotonic);
	take_over_from_scheduler(hold.queue(), monotonic);
}

static PopResult
short_of(Round *round, StopReason shortage)
{
	round->shortage = shortage;
	return PopResult::kShort;
}

static void
note_taken(Round *round, const QueueHold &hold, Lease *lease, const Hint &hint)
{
	Candidate &popped = round->popped[round->n++];
	popped.hint = hint;
	popped.turn = hold.schedule().last_turn();
	popped.lease = lease;
	popped.serial = serial_of(lease);
	popped.token = token_of(lease);
	popped.grouped = has_group_rules(hold.queue());
	popped.from = hold.schedule().floor_of(hint.group);
	add_claim_effect(round->ref, lease);
}

/* Return the next lease of this transaction that can still lend its slot; NULL: there is none. */
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

/*
 * Find a slot for one more job. *lender: the lease that lends its slot, or NULL if a slot is not in
 * use. Returns false if concurrency or rate_limit allows no more jobs.
 */
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

/* Take the lease of an admitted job. Returns kLeases if no lease is left, otherwise kNone. */
static StopReason
take_admitted(Round *round, QueueHold &hold, const Hint &hint, Lease *lender)
{
	Lease *lease;
	Schedule &schedule = hold.schedule();
	TakeResult taken = take_lease(hold.queue(), hint, &lease);
	switch (taken)
	{
		case TakeResult::kTaken:
			lender == nullptr ? occupy_slot(lease) : lend_slot(lender, lease);
			count_in_group(lease);
			note_taken(round, hold, lease, hint);
			break;
		case TakeResult::kHeld:
			/*
			 * The job has a lease already. A lease in this queue files the hint when the lease
			 * ends. If the lease is in another queue, rows of this queue are read again later.
			 */
			note_missed(hold.queue(), lease, hint);
			schedule.return_turn(hint);
			break;
		case TakeResult::kFull:
			schedule.take_back(hint);
			break;
	}
	if (taken != TakeResult::kTaken)
		schedule.left(hint);
	return taken == TakeResult::kFull ? StopReason::kLeases : StopReason::kNone;
}

/*
 * Pop a hint, and take the lease of its job if the rules for groups admit the job. Returns kLeases
 * if no lease is left, otherwise kNone.
 */
static StopReason
pop_one(Round *round, QueueHold &hold, Lease *lender)
{
	Schedule &schedule = hold.schedule();
	Hint hint = schedule.pop();
	if (schedule.admit(hint))
		return take_admitted(round, hold, hint, lender);
	schedule.return_turn(hint);
	return StopReason::kNone;
}

/*
 * Pop hints until `most` leases are taken, kHoldMax hints were popped, or no hint can be popped. If
 * leases or slots run out before, stop and set round->shortage.
 */
static void
take_leases(Round *round, QueueHold &hold, int most)
{
	Schedule &schedule = hold.schedule();
	for (int looked_at = 0;
		 round->n < most && looked_at < kHoldMax && round->shortage == StopReason::kNone;
		 looked_at++)
	{
		schedule.clear_way();
		if (!schedule.poppable())
			break;
		int before = round->n;
		Lease *lender;
		bool room = find_slot(round, hold.queue(), &lender);
		round->shortage = room ? pop_one(round, hold, lender) : StopReason::kFull;
		if (lender != nullptr && round->n == before)
			round->lenders.n++;
	}
}

/*
 * Return what must be done before a hint can be popped. If no job is ready, set round->shortage.
 */
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
	if (!schedule.exhausted())
		return PopResult::kWaitForRefill;
	hold.schedule().note_exhausted();
	/*
	 * The last mover (hold->mover) may have the leases of jobs that this claim would have taken.
	 * Wait for the mover only if one of these jobs is due.
	 */
	if (hold->mover_due <= wall_now())
		round->mover = hold->mover;
	return short_of(round, StopReason::kEmpty);
}

/*
 * Steps: stop if the queue is closed to claims or paused; count leases that do not count in their
 * groups yet; apply the passage of time; stop if a limit is reached or the token mark must be
 * advanced; take leases; wake the next waiter if jobs are left.
 */
static PopResult
pop_under_lock(Round *round, QueueHold &hold)
{
	Schedule &schedule = hold.schedule();
	int most = round->most;
	if (hold->holds > 0 || hold->options.paused)
		return short_of(round, StopReason::kHeld);
	round->options = hold->options;
	round->options_set = hold->options_set;
	if (!count_some(hold.queue()))
		return PopResult::kPopped;
	let_time_pass(*round, hold);
	schedule.clear_way();

	/*
	 * If other transactions have locked the rows of too many jobs of this database, only a queue
	 * that has no set-aside job goes on, one job at a time.
	 */
	if (too_many_parked(hold->database->share))
	{
		if (hold->parked_count > 0)
			return short_of(round, StopReason::kLocked);
		most = 1;
	}
	bool full = room_to_run(hold.queue()) == 0 && round->lenders.n == 0;
	if (schedule.poppable() && (full || room_to_start(hold.queue()) == 0))
		return short_of(round, StopReason::kFull);
	if (schedule.poppable() && !token_mark_is_ahead(hold->database, kTokenLead))
		return PopResult::kTokenMark;
	take_leases(round, hold, most);
	/*
	 * If groups have room again, new markers are to be visited. Wake one waiter, which visits these
	 * markers, instead of one waiter for each group.
	 */
	if (schedule.take_news() > 0)
		hold.pass_on();
	if (round->shortage != StopReason::kNone)
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
		return short_of(round, StopReason::kDropped);
	return result;
}

} // namespace pgq
