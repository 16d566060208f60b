#include "steps/waiting.h"

#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "engine/held.h"
#include "engine/hold.h"
#include "engine/named/lock_line.h"
#include "load/attach.h"
#include "pg/virtual_xid.h"
#include "pg/wait_events.h"
#include "rows/visibility.h"
#include "txn/deadlock.h"
#include "txn/effects.h"

namespace pgq {

namespace {

enum class TakeInHand : uint8
{
	kInHand,	/* the lease is taken, or not needed */
	kHandedOut, /* the job cannot be changed, mostly because a worker has the job */
	kAgain,		/* look again when *other has ended, or after a moment if *other is invalid */
	kClaiming,	/* look again when the claim in progress of *other has decided about the job */
	/* like kAgain, but take the turn at the job first, so that no session becomes a new holder */
	kHolder,
};

} // namespace

/*
 * Go on without the lease, as a plain UPDATE or DELETE does. The user of the lease waits, or will
 * wait, for the row that this transaction has locked, so waiting for that user would be a deadlock.
 */
static TakeInHand
reach_row(TakenLease *taken)
{
	*taken = {.ref = taken->ref, .lease = nullptr, .fleeting = true};
	return TakeInHand::kInHand;
}

/*
 * Decide what to do about a CLAIMING lease. If Lease::user names a transaction, that transaction
 * has taken the lease to change or end the job. Otherwise a claim of the job is in progress. ours:
 * this transaction has locked or written the row.
 */
static TakeInHand
reach_claiming(const Lease *lease, bool ours, TakenLease *taken, VirtualTransactionId *other)
{
	bool claims = !VirtualTransactionIdIsValid(lease->user);
	*other = claims ? lease->claimer : lease->user;
	if (is_me(lease->user))
		return TakeInHand::kHandedOut;
	if (claims)
		return TakeInHand::kClaiming;
	return ours ? reach_row(taken) : TakeInHand::kAgain;
}

/*
 * Decide what to do about a CLAIMED lease. Even a doomed lease can have a user: a transaction that
 * counts the lost attempt, or the transaction of the worker, which reports a failure too late.
 */
static TakeInHand
reach_claimed(const Lease *lease, bool ours, TakenLease *taken, VirtualTransactionId *other)
{
	*other = lease->user;
	if (!lease->doomed || !VirtualTransactionIdIsValid(*other) || is_me(*other))
		return TakeInHand::kHandedOut;
	return ours && is_being_counted(lease) ? reach_row(taken) : TakeInHand::kAgain;
}

static void
take_lost(QueueHold &hold, Lease *lease, TakenLease *taken)
{
	*taken = {
		.ref = hold.ref(), .lease = lease, .earlier = false, .lost = true, .loss = lease->loss};
	retake_lost(lease);
	end_at_commit(taken->ref, lease, LeaseEnd::kLost);
}

/*
 * Decide what to do about a HELD lease. If there are other holders, wait for one of them. If this
 * transaction is the only holder, it may use the lease.
 */
static TakeInHand
reach_held(QueueHold &hold, Lease *lease, bool ours, TakenLease *taken, VirtualTransactionId *other)
{
	const VirtualTransactionId *holder = other_holder(lease);
	if (holder != nullptr && ours && VirtualTransactionIdEquals(lease->user, *holder))
		return reach_row(taken);
	if (holder != nullptr)
	{
		*other = *holder;
		return is_holder(lease, my_virtual_xid()) ? TakeInHand::kAgain : TakeInHand::kHolder;
	}
	*taken = {.ref = hold.ref(), .lease = lease, .earlier = true};
	use_to_the_end(taken->ref, lease);
	return TakeInHand::kInHand;
}

/* Decide what to do about the existing lease of the job. */
static TakeInHand
reach(const JobRow &row, LeaseEnd how, bool lost, TakenLease *taken, VirtualTransactionId *other)
{
	TakeInHand reach = TakeInHand::kAgain;
	bool ours = how != LeaseEnd::kAcked && is_ours(row.tuple->t_data);
	SetInvalidVirtualTransactionId(*other);
	reserve_lease_effects(1);
	(void) change_lease(tables().database, row.job_id(), [&](QueueHold &hold, Lease *lease) {
		if (lost && lease->ending && is_me(lease->user))
		{
			*taken = {.ref = hold.ref(), .lease = lease, .earlier = true};
			reach = TakeInHand::kInHand;
			return;
		}
		switch (lease->state)
		{
			case LeaseState::kClaiming:
				reach = reach_claiming(lease, ours, taken, other);
				break;
			case LeaseState::kClaimed:
				reach = reach_claimed(lease, ours, taken, other);
				break;
			case LeaseState::kParked:
				/*
				 * A claim has set the job aside because its row was busy. This transaction waits
				 * for the row itself, so the set-aside lease is not needed.
				 */
				hold.give_back(lease);
				break;
			case LeaseState::kReaping:
				*other = lease->claimer;
				reach = lost ? TakeInHand::kAgain : TakeInHand::kHandedOut;
				break;
			case LeaseState::kLost:
				if (lost)
					take_lost(hold, lease, taken);
				reach = lost ? TakeInHand::kInHand : TakeInHand::kHandedOut;
				break;
			case LeaseState::kHeld:
				reach = reach_held(hold, lease, ours, taken, other);
				break;
		}
	});
	return reach;
}

void
complain_of_leases()
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many jobs are claimed at the same time"),
			 errdetail("Not only a claim needs a free lease, but also a change of a waiting job, "
					   "an enqueue with the unique key of a waiting job, and an acknowledgement "
					   "with a lease from before the last start of the server."),
			 errhint("Try again, or raise pgq_ext.max_leases (now %d) and restart the "
					 "server.",
					 max_leases)));
}

void
wait_for_transaction(const VirtualTransactionId &other)
{
	if (VirtualTransactionIdIsValid(other))
		VirtualXactLock(other, true);
	else
		pg_usleep(1000);
	if (any_prepared())
		resolve_prepared();
	CHECK_FOR_INTERRUPTS();
}

/*
 * Return the procno of the process whose claim is in progress, or kNobody if the claim or the
 * process has ended. *decided: set if the claim is no longer in progress.
 */
static int
claimer_of(int64 job_id, const VirtualTransactionId &claimer, bool *decided)
{
	int pid = 0;
	*decided = true;
	(void) look_at_lease(tables().database, job_id, [&](const Lease &lease) {
		*decided = lease.state != LeaseState::kClaiming ||
				   VirtualTransactionIdIsValid(lease.user) ||
				   !VirtualTransactionIdEquals(lease.claimer, claimer);
		pid = lease.pid;
	});
	PGPROC *process = *decided ? nullptr : BackendPidGetProc(pid);
	return process == nullptr ? kNobody : static_cast<int>(process - ProcGlobal->allProcs);
}

void
wait_for_claim(int64 job_id, const VirtualTransactionId &claimer)
{
	static constexpr int kShortNaps = 100;
	DeadlockWatch deadlock;
	bool decided;
	for (int naps = 0;; naps++)
	{
		await_claimer(claimer_of(job_id, claimer, &decided));
		if (decided)
			break;
		deadlock.look(); /* called while the claim is in progress: see claimer_of() */
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 naps < kShortNaps ? 1 : 10, wait_events.decision);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	await_claimer(kNobody);
}

/*
 * Take a lease if the job has none; otherwise decide what to do about the existing lease. *other:
 * the transaction to wait for.
 */
static TakeInHand
try_to_take(const JobRow &row, LeaseEnd how, bool lost, TakenLease *taken,
			VirtualTransactionId *other)
{
	*taken = {};
	if (!attach_queue_by_id(tables(), row.queue_id(), &taken->ref))
	{
		taken->ref = {};
		return TakeInHand::kHandedOut;
	}
	TakeResult result =
		how == LeaseEnd::kAcked
			? take_lease_to_end(taken->ref, row.hint(), how, &taken->lease, other)
			: take_lease_to_change(taken->ref, row.hint(), how, &taken->lease, &taken->fleeting);
	switch (result)
	{
		case TakeResult::kTaken:
			return TakeInHand::kInHand;
		case TakeResult::kFull:
			complain_of_leases();
		case TakeResult::kHeld:
			break;
	}
	return reach(row, how, lost, taken, other);
}

bool
take_waiting(const JobRow &row, LeaseEnd how, bool lost, TakenLease *taken)
{
	bool turn = false;
	TakeInHand reached;
	do
	{
		VirtualTransactionId other;
		reached = try_to_take(row, how, lost, taken, &other);
		/* After getting the turn, look at the holders once more before waiting for one of them. */
		if (reached == TakeInHand::kHolder && !turn)
			turn = lock_turn(row.job_id(), ExclusiveLock, true);
		else if (reached == TakeInHand::kClaiming)
			wait_for_claim(row.job_id(), other);
		else if (reached == TakeInHand::kAgain || reached == TakeInHand::kHolder)
			wait_for_transaction(other);
	} while (reached != TakeInHand::kInHand && reached != TakeInHand::kHandedOut);
	if (turn)
		unlock_turn(row.job_id(), ExclusiveLock);
	return reached == TakeInHand::kInHand;
}

void
give_back_taken(const TakenLease &taken)
{
	forget_lease_effects(2);
	(void) change_queue(taken.ref, [&](QueueHold &hold) { hold.give_back(taken.lease); });
}

void
give_back_gone(const TakenLease &taken)
{
	if (taken.lease != nullptr && !taken.earlier && !taken.lost)
		give_back_taken(taken);
}

void
leave_to_row(const TakenLease &taken, const JobRow &row, JobEnd end)
{
	if (taken.lease == nullptr)
		note_early(taken.ref, row.job_id(), row.group(), end);
	else if (taken.fleeting)
		let_go_early(taken.ref, taken.lease, end);
}

} // namespace pgq
