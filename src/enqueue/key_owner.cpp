#include "enqueue/key_owner.h"

#include "catalog/queue_lock.h"
#include "engine/held.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "pg/stop_point.h"
#include "pg/virtual_xid.h"
#include "rows/write.h"
#include "steps/waiting.h"
#include "txn/effects.h"

namespace pgq {

namespace {
/* The result of the search for one job that has the key; compare OwnerAnswer. */
enum class LookResult : uint8
{
	kHeld,		 /* the job is a waiting job, and is not handed out before this transaction ends */
	kLeased,	 /* the job is in work */
	kNotYet,	 /* the answer depends on another transaction, noted in the search */
	kPassedOver, /* not the owner of the key: look at the next job */
};

/* The lease that take_hold() has found or taken. */
struct HeldLease
{
	Lease *lease;
	bool fresh;	   /* this call has made this transaction a holder */
	bool fleeting; /* fresh, and the lease is to be given back early (steps/README.md) */
	bool purged;   /* a purge or drop may be deleting rows of the queue */
	bool foreign;  /* the lease is of another queue, from which SQL has moved the job */
};

} // namespace

static LookResult
not_yet(OwnerSearch *search, TransactionId xid, const VirtualTransactionId &vxid)
{
	search->xid = xid;
	search->vxid = vxid;
	search->claiming = search->locked = search->wants_turn = search->passes = false;
	return LookResult::kNotYet;
}

static LookResult
ask_again(OwnerSearch *search)
{
	return not_yet(search, InvalidTransactionId, kNoVirtualXid);
}

static LookResult
wait_for(OwnerSearch *search, const VirtualTransactionId &vxid)
{
	return not_yet(search, InvalidTransactionId, vxid);
}

/* ---- leases ---- */

/* Return whether a worker has the job by this lease, which this transaction is not ending. */
static bool
is_in_work(const Lease &lease)
{
	return was_handed_out(&lease) && !(lease.ending && is_me(lease.user));
}

/* Return whether a worker has the job. */
static bool
is_leased(int64 job_id)
{
	bool leased = false;
	(void) look_at_lease(tables().database, job_id,
						 [&](const Lease &lease) { leased = is_in_work(lease); });
	return leased;
}

/*
 * Return whether the transaction `user` has taken the lease to change or end a job whose row this
 * transaction has locked; also set by_row. If so, `user` waits, or will wait, for that row lock.
 */
static bool
is_at_our_row(OwnerSearch *search, const VirtualTransactionId &user)
{
	search->by_row = VirtualTransactionIdIsValid(user) && search->owner.locked_by_us;
	return search->by_row;
}

/* Decide about a CLAIMING lease, with or without a user; compare reach_claiming() in steps/waiting.cpp. */
static LookResult
meet_claiming(OwnerSearch *search, const Lease *lease)
{
	if (is_me(lease->user))
		return LookResult::kHeld;
	if (is_at_our_row(search, lease->user))
		return LookResult::kHeld;
	if (VirtualTransactionIdIsValid(lease->user))
		return wait_for(search, lease->user);
	(void) wait_for(search, lease->claimer);
	search->claiming = true;
	return LookResult::kNotYet;
}

/*
 * Let the search wait until a holder has ended. A session that is not a holder takes the turn at
 * the job first, so that no session becomes a new holder.
 */
static LookResult
wait_for_holder(OwnerSearch *search, const Lease *lease, const VirtualTransactionId &holder)
{
	(void) wait_for(search, holder);
	search->wants_turn = !is_holder(lease, my_virtual_xid());
	return LookResult::kNotYet;
}

/*
 * Return whether claims have wanted the job for kLong. Such a job gets no new holder: holds that
 * overlap without end would keep the job from claims. With unique_until 'finished' this session
 * waits for the present holders, and then leaves the job to claims for a while. With 'claimed' this
 * session treats the job as claimed already.
 */
static bool
is_starved(const Lease *lease)
{
	static constexpr int64 kLong = USECS_PER_SEC;
	return is_wanted(lease, monotonic_now(), kLong);
}

static LookResult
join_holders(OwnerSearch *search, Lease *lease, HeldLease *grip)
{
	bool starves = is_starved(lease);
	if (starves && search->until_claimed)
		return LookResult::kPassedOver;
	grip->fresh = !starves && hold_to_the_end(search->ref, lease);
	search->starves |= starves;
	return grip->fresh ? LookResult::kHeld : wait_for_holder(search, lease, lease->holder[0]);
}

static LookResult
meet_held(OwnerSearch *search, Lease *lease, HeldLease *grip)
{
	const VirtualTransactionId *other = other_holder(lease);
	if (search->alone && other != nullptr && VirtualTransactionIdEquals(lease->user, *other) &&
		is_at_our_row(search, *other))
		return LookResult::kHeld;
	if (search->alone && other != nullptr)
	{
		search->starves |= is_wanted(lease, monotonic_now(), 0);
		return wait_for_holder(search, lease, *other);
	}
	if (VirtualTransactionIdIsValid(lease->user) && !is_me(lease->user))
		return wait_for_holder(search, lease, lease->user);
	return is_holder(lease, my_virtual_xid()) ? LookResult::kHeld
											  : join_holders(search, lease, grip);
}

/*
 * Return whether the search must wait before it holds the job, so that a claim can take the job first: holds have kept
 * claims from taking the job. The search waits for kAWhile. All searches of a transaction together wait for at most kMost.
 */
static bool
is_left_to_claims(OwnerSearch *search, int64 job_id)
{
	static constexpr int64 kAWhile = 100 * 1000;
	static constexpr int64 kMost = USECS_PER_SEC;
	static constinit LocalTransactionId lxid = InvalidLocalTransactionId;
	static constinit int64 left = 0;
	if (!search->starves || look_at_lease(tables().database, job_id, [](const Lease &) {}))
		return false;
	if (lxid != my_virtual_xid().localTransactionId)
		left = kMost;
	lxid = my_virtual_xid().localTransactionId;
	int64 now = monotonic_now();
	if (search->gap_since == 0)
	{
		search->gap_since = left > 0 ? now : now - kAWhile;
		left -= kAWhile;
	}
	return now - search->gap_since < kAWhile;
}

/*
 * Return whether this session may hold the job. While another session has the turn and waits for
 * the holders, only present holders may hold the job.
 */
static bool
is_in_turn(const OwnerSearch *search, int64 job_id)
{
	bool ours = search->turn == job_id;
	if (ours || lock_turn(job_id, ShareLock, false))
	{
		if (!ours)
			unlock_turn(job_id, ShareLock);
		return true;
	}
	(void) look_at_lease(tables().database, job_id, [&](const Lease &lease) {
		ours = is_me(lease.user) || is_holder(&lease, my_virtual_xid());
	});
	return ours;
}

/* If this session will change the job, become the user of the HELD lease, which then gets no new holders. */
static void
exclude_others(const OwnerSearch *search, const QueueRef &ref, Lease *lease)
{
	if (search->alone && lease->state == LeaseState::kHeld && lease->uses == 0)
		use_to_the_end(ref, lease);
}

/*
 * Decide about a lease of another queue, from which SQL has moved the job. That queue has its own
 * lock, so this session cannot become a holder of the lease.
 */
static LookResult
meet_foreign(OwnerSearch *search, int64 job_id)
{
	LookResult met = ask_again(search);
	if (is_leased(job_id))
		return LookResult::kLeased;
	reserve_lease_effects(1);
	(void) change_lease(tables().database, job_id, [&](QueueHold &hold, Lease *lease) {
		const VirtualTransactionId *other = other_holder(lease);
		if (lease->state == LeaseState::kClaiming)
			met = meet_claiming(search, lease);
		else if (other != nullptr)
			met = wait_for(search, *other);
		else if (VirtualTransactionIdIsValid(lease->user) && !is_me(lease->user))
			met = wait_for(search, lease->user);
		else if (is_me(lease->user) || is_holder(lease, my_virtual_xid()))
		{
			exclude_others(search, hold.ref(), lease);
			met = LookResult::kHeld;
		}
		else if (lease->state == LeaseState::kParked)
			hold.give_back(lease);
	});
	return met;
}

static LookResult
meet_lease(OwnerSearch *search, QueueHold &hold, HeldLease *grip)
{
	Lease *lease = grip->lease;
	grip->foreign = lease->queue != hold.queue();
	if (grip->foreign)
		return ask_again(search);
	switch (lease->state)
	{
		case LeaseState::kClaiming:
			return meet_claiming(search, lease);
		case LeaseState::kParked:
			hold.give_back(lease);
			return ask_again(search);
		case LeaseState::kHeld:
			return meet_held(search, lease, grip);
		case LeaseState::kClaimed:
		case LeaseState::kLost:
		case LeaseState::kReaping:
			break;
	}
	return LookResult::kLeased;
}

static LookResult
take_hold(OwnerSearch *search, const Hint &hint, HeldLease *grip)
{
	LookResult met = ask_again(search);
	TakeResult taken = TakeResult::kHeld;
	reserve_lease_effects(2);
	(void) change_queue(search->ref, [&](QueueHold &hold) {
		taken = hold.take_waiting(hint, &grip->lease, &grip->fleeting);
		grip->purged = hold->holds > 0;
		/* holds have kept claims from the job: leave the job to claims first */
		if (taken == TakeResult::kTaken && search->starves && search->gap_since == 0)
			hold.give_back(grip->lease);
		else if (taken == TakeResult::kTaken)
		{
			grip->fresh = hold_to_the_end(search->ref, grip->lease);
			met = LookResult::kHeld;
		}
		else if (taken == TakeResult::kHeld)
			met = meet_lease(search, hold, grip);
		grip->fleeting &= grip->fresh;
		if (met == LookResult::kHeld)
			exclude_others(search, search->ref, grip->lease);
	});
	if (taken == TakeResult::kFull && !search->impatient)
		complain_of_leases();
	return grip->foreign ? meet_foreign(search, hint.key.job_id) : met;
}

/* ---- rows ---- */

/* If the hold is not enough, lock the row of the held job, too: a purge may have missed the hold, or the hold is fleeting. */
static LookResult
lock_row_now(OwnerSearch *search, const KeyedJob &job)
{
	SegmentSet segments(RowShareLock);
	WriteResult locked = keep_job_now(segments, job.hint.place, job.job_id());
	segments.close();
	if (locked == WriteResult::kDone)
		return LookResult::kHeld;
	(void) ask_again(search);
	search->locked = locked == WriteResult::kBusy;
	return LookResult::kNotYet;
}

/* Read the row again under the hold: it may have changed since the search found it. */
static LookResult
verify_held(SegmentSet &segments, OwnerSearch *search, KeyedJob *job, const HeldLease &grip)
{
	KeyedJob found = *job;
	bool same = look_at_keyed_job(segments, search->key, job) && job->attempts == found.attempts &&
				job->expires_at == found.expires_at;
	if (same && job->state == KeyedJob::kEnding)
		return not_yet(search, job->xid, kNoVirtualXid);
	if (same && (grip.purged || (grip.fleeting && !search->alone)))
		return lock_row_now(search, *job);
	return same ? LookResult::kHeld : ask_again(search);
}

/* Let the search wait for the session that has the turn; with unique_until 'claimed', skip a starved job. */
static LookResult
pass_turn(OwnerSearch *search, int64 job_id)
{
	bool starved = false;
	(void) look_at_lease(tables().database, job_id,
						 [&](const Lease &lease) { starved = is_starved(&lease); });
	if (starved && search->until_claimed)
		return LookResult::kPassedOver;
	(void) ask_again(search);
	search->passes = true;
	return LookResult::kNotYet;
}

static LookResult
meet_live(SegmentSet &segments, OwnerSearch *search, KeyedJob *job)
{
	bool expired = job->expires_at <= search->now;
	if (expired || search->only_ask)
	{
		if (is_leased(job->job_id()))
			return LookResult::kLeased;
		return expired ? LookResult::kPassedOver : LookResult::kHeld;
	}
	if (is_left_to_claims(search, job->job_id()))
		return ask_again(search);
	if (!is_in_turn(search, job->job_id()))
		return pass_turn(search, job->job_id());
	HeldLease grip{};
	stop_point("key-met");
	LookResult met = take_hold(search, job->hint, &grip);
	if (met != LookResult::kHeld)
		return met;
	met = verify_held(segments, search, job, grip);
	bool locked = met == LookResult::kHeld && grip.fleeting && !search->alone;
	if (grip.fresh && (met != LookResult::kHeld || locked))
		undo_hold(search->ref, grip.lease, search->alone);
	else if (grip.fresh && grip.fleeting)
		search->fleeting = grip.lease;
	return met;
}

/*
 * Return whether this transaction has locked the row of a job that has not expired, and will hold the job without a change.
 * Then the row lock keeps the job from claims, even while another transaction changes the row.
 */
static bool
is_kept(const OwnerSearch *search, const KeyedJob &job)
{
	return job.locked_by_us && !search->alone && !search->only_ask && job.expires_at > search->now;
}

/* Decide about a job that is_kept(): a worker may have it, or a claim in progress may still hand it out. */
static LookResult
meet_kept(OwnerSearch *search, int64 job_id)
{
	LookResult met = LookResult::kHeld;
	stop_point("key-kept");
	(void) look_at_lease(tables().database, job_id, [&](const Lease &lease) {
		if (is_in_work(lease))
			met = LookResult::kLeased;
		else if (lease.state == LeaseState::kClaiming)
			met = meet_claiming(search, &lease);
	});
	return met;
}

static LookResult
meet(SegmentSet &segments, OwnerSearch *search, KeyedJob *job)
{
	if (search->until_claimed && job->attempts > 0 && !search->impatient)
		return LookResult::kPassedOver;
	if (is_kept(search, *job))
		return meet_kept(search, job->job_id());
	if (job->state == KeyedJob::kLive)
		return meet_live(segments, search, job);
	/* is_undecided() has waited for all writers except the job's worker. So a writer in another session is the worker. */
	return job->state != KeyedJob::kOurs || is_leased(job->job_id()) ? LookResult::kLeased
																	 : LookResult::kHeld;
}

/*
 * Return whether another open transaction is writing the row of one of the jobs. If so, the search waits for that
 * transaction. Leaves out jobs in work, and jobs for which is_kept() is true.
 */
static bool
is_undecided(OwnerSearch *search, const KeyedJob *jobs, int n)
{
	for (int i = 0; i < n; i++)
		if ((jobs[i].state == KeyedJob::kArriving || jobs[i].state == KeyedJob::kEnding) &&
			!is_kept(search, jobs[i]) && !is_leased(jobs[i].job_id()))
		{
			(void) not_yet(search, jobs[i].xid, kNoVirtualXid);
			(void) look_at_lease(tables().database, jobs[i].job_id(), [&](const Lease &lease) {
				search->starves |= is_wanted(&lease, monotonic_now(), 0);
			});
			return true;
		}
	return false;
}

/* Find the owner: the youngest job with the key that counts (README.md, "Unique keys"). */
OwnerAnswer
find_owner(SegmentSet &segments, OwnerSearch *search)
{
	KeyedJob *jobs;
	search->fleeting = nullptr;
	search->by_row = false;
	int n = find_keyed_jobs(segments, search->key, &jobs);
	if (!search->impatient && is_undecided(search, jobs, n))
		return OwnerAnswer::kNotYet;
	for (int i = 0; i < n; i++)
	{
		if (search->impatient && is_undecided(search, &jobs[i], 1))
			continue;
		search->owner = jobs[i];
		LookResult met = meet(segments, search, &search->owner);
		if (met == LookResult::kHeld)
			return OwnerAnswer::kHeld;
		if (met == LookResult::kNotYet && !search->impatient)
			return OwnerAnswer::kNotYet;
		if (met == LookResult::kLeased && !search->until_claimed)
			return OwnerAnswer::kLeased;
	}
	return OwnerAnswer::kNobody;
}

} // namespace pgq
