#include "claim/take.h"

#include "catalog/subscription.h"
#include "catalog/tables.h"
#include "catalog/token_mark.h"
#include "claim/pop.h"
#include "claim/requeue.h"
#include "claim/session_lease.h"
#include "claim/verify.h"
#include "engine/hold.h"
#include "engine/token.h"
#include "load/groups.h"
#include "pg/stop_point.h"
#include "ring/move.h"
#include "txn/effects.h"

namespace pgq {

/* ---- between two rounds ---- */

/*
 * Wait in the lock manager until the processes that read rows of the queue into memory have finished or
 * given up, without a time limit. The caller then tries again. Raise an error if for 10 s, not
 * counting these waits, there was neither a process to wait for nor a job: 55000 if segments or their
 * indexes are missing, else 55P03.
 */
static void
wait_for_refill(Round *round)
{
	const QueueRef &ref = round->ref;
	RefillWait *patience = &round->patience;
	static constexpr int64 kLongest = 10 * USECS_PER_SEC;
	static constexpr long kNap = 1000;
	int64 before = monotonic_now();
	patience->since = patience->since == 0 ? before : patience->since;
	bool too_long = before - patience->since > kLongest;
	if (too_long && !segments_known(&round->segments))
		complain_incomplete();
	if (too_long)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("queue \"%s\" is being loaded by another process, which makes no progress",
						ref.queue->name)));
	if (wait_for_refills(ref))
	{
		patience->since += monotonic_now() - before;
		return;
	}
	/*
	 * A refill may have ended just before this call, so try again without a sleep the first time.
	 */
	if (patience->idle++ > 0)
		pg_usleep(kNap);
}

/* Refill the timer and the window. Returns false if segments are missing or incomplete. */
static bool
refill(Round *round)
{
	/*
	 * Refill the timer first: while the timer's cursor is behind the clock, each call of
	 * Schedule::fire() makes another refill of the window necessary.
	 */
	RefillResult timer = refill_timer(round->ref, true);
	RefillResult window = refill_window(round->ref, true);
	round->refilled = timer == RefillResult::kDone || window == RefillResult::kDone;
	return timer != RefillResult::kNotReady && window != RefillResult::kNotReady;
}

/*
 * If a transaction was moving rows of due jobs (round->mover) when the claim found no job, wait for
 * that transaction, which files these jobs when it ends, and let the claim do another round. This
 * is repeated if that round finds another mover: while the claim waited, other jobs may have become
 * due or have been given back, and then been moved. The repetitions end, since a rotation moves
 * each row once.
 */
static void
look_again(Round *round)
{
	if (!VirtualTransactionIdIsValid(round->mover))
		return;
	wait_for_mover(round->ref, round->mover);
	SetInvalidVirtualTransactionId(round->mover);
	round->shortage = StopReason::kNone;
}

/*
 * After kFull, let the claim do another round if that may find a slot: because requeue_rejected()
 * has freed the slots of `unfit` jobs, or because this transaction ends leases that can lend their
 * slots.
 */
static void
find_room(Round *round, int unfit)
{
	Lenders *lenders = &round->lenders;
	bool found = unfit > 0;
	if (!found && !lenders->asked)
	{
		lenders->asked = true;
		lenders->leases = static_cast<Lender *>(
			MemoryContextAlloc(GetMemoryChunkContext(round->popped), kRoundMax * sizeof(Lender)));
		lenders->n = own_ends(round->ref, kRoundMax, lenders->leases);
		found = lenders->n > 0;
	}
	if (found)
		round->shortage = StopReason::kNone;
}

/*
 * Do what the next round needs: a visit of markers, a step of a lap, a refill, a wait, or a greater
 * token mark. After kEmpty and kFull, also find out whether another round may get a job.
 */
static void
clear_the_way(Round *round, PopResult result, int unfit, bool nothing_yet)
{
	round->first = round->refilled = false;
	bool must_wait = result == PopResult::kWaitForRefill;
	if (result == PopResult::kVisit)
		must_wait = visit_groups(round->ref, true, round->segments) == RefillResult::kNotReady;
	if (result == PopResult::kStep)
		must_wait = step_of_lap(round->ref, true, round->segments) == RefillResult::kNotReady;
	if (result == PopResult::kTokenMark)
		advance_token_mark(kTokenLead, true, synchronous_commit);
	if (result == PopResult::kRefill)
		must_wait = !refill(round);
	if (must_wait)
		wait_for_refill(round);
	else
		round->patience = {};
	if (round->shortage == StopReason::kEmpty && nothing_yet)
		look_again(round);
	if (round->shortage == StopReason::kFull)
		find_room(round, unfit);
}

/* ---- one queue ---- */

/*
 * Verify the popped jobs, and settle the jobs that cannot be handed out. Returns the number of
 * these jobs.
 */
static int
take_popped(Round *round, Claim *claim, MemoryContext scratch)
{
	if (round->n == 0)
	{
		round->segments.close();
		return 0;
	}
	stop_point("claim-verify");
	int unfit = verify(round, claim, scratch);
	if (unfit == 0)
		return 0;
	stop_point("claim-settle");
	requeue_rejected(round);
	return unfit;
}

StopReason
claim_from(const QueueRef &ref, Claim *claim)
{
	/*
	 * In each round: reserve places for effects, pop hints, verify and settle their jobs, and
	 * prepare the next round. Memory that a row needs is freed with the row, other scratch memory
	 * with the round.
	 */
	int wanted = claim->options->max_jobs;
	refuse_if_subscribed();
	Round round{};
	round.ref = ref;
	round.first = true;
	round.popped = static_cast<Candidate *>(palloc(Min(kRoundMax, wanted) * sizeof(Candidate)));
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_claim", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	if (any_prepared())
		resolve_prepared();
	while (round.shortage == StopReason::kNone && claim->n < wanted)
	{
		round.most = Min(kRoundMax, wanted - claim->n);
		reserve_lease_effects(round.most);
		PopResult result = pop(&round);
		int unfit = take_popped(&round, claim, scratch);
		if (round.full)
			break;
		clear_the_way(&round, result, unfit, claim->n == 0);
		MemoryContextReset(scratch);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
	if (round.lenders.leases != nullptr)
		pfree(round.lenders.leases);
	pfree(round.popped);
	return round.shortage;
}

/* ---- handing out ---- */

/*
 * Return the index behind the last job that can be handed out in the same hold of the queue's lock
 * as job `first`: at most kHoldMax jobs, all of the same queue.
 */
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
 * Return whether the lease must begin now, because verify() read the row too long ago: more than
 * 100 ms, or more than 1/128 of the lease time. Otherwise the lease begins at that read, and ends
 * at the time that was passed to the caller.
 */
static bool
begins_late(const Ready &ready, int64 monotonic)
{
	static constexpr int64 kLittle = 100 * 1000;
	return monotonic - ready.monotonic > Min(ready.hand_out.lease_time / 128, kLittle);
}

/*
 * Hand out the job if the last checks permit this. Otherwise give the job back, or end its lease. The
 * caller holds the queue's lock.
 */
static void
hand_out_one(QueueHold &hold, Ready *ready, int64 monotonic, HandedOut *result)
{
	/* If the lease of the job has ended, another lease may use its entry now. */
	if (serial_of(ready->lease) != ready->serial)
		return;
	/*
	 * End the lease if SQL has deleted the row since verify() read it, even if SQL has inserted the
	 * row again.
	 */
	if (ready->lease->rows_gone.at_all > 0)
		return hold.end(ready->lease);
	if (ready->lease->doomed)
		return hold.give_back(ready->lease);
	/*
	 * Give the job back in two cases. The options were changed since the round, for example by a
	 * pause or a new limit, and the new options apply. Or the token is above the token mark, which
	 * the next claim advances.
	 */
	if (ready->options_set != hold->options_set || is_above_mark(hold->database, ready->token))
		return hold.give_back(ready->lease);
	/*
	 * End the lease if the job has expired since verify_one() checked that. The scheduler ends the
	 * job.
	 */
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
	bool noted = claim->options->session_bound && !claim->options->ends_them_itself;
	for (int i = 0; i < claim->n && noted; i++)
		if (const Ready &ready = claim->ready[i]; ready.handed_out)
			note_session_lease(ready.ref, ready.lease, ready.serial);
	result.kept = claim->n - result.jobs;
	return result;
}

} // namespace pgq
