#include "steps/in_hand.h"

#include "catalog/queue_row.h"
#include "catalog/rights.h"
#include "engine/handler_slot.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "pg/virtual_xid.h"
#include "rows/visibility.h"
#include "steps/end_row.h"
#include "steps/permission.h"
#include "txn/effects.h"

namespace pgq {

/* ---- a waiting job ---- */

EndingLease
ending_of(const TakenLease &taken, const JobRow &row)
{
	EndingLease ending{};
	ending.ref = taken.ref;
	ending.lease = taken.lease;
	ending.job_id = row.job_id();
	ending.place = row.place;
	(void) look_at_queue(taken.ref, [&](const Queue &queue) {
		ending.options = queue.options;
		note_run(taken.lease, &ending.run);
	});
	return ending;
}

/* Count the attempt of a lost lease that this transaction has taken, as the scheduler would. */
static void
count_lost(SegmentSet &segments, const TakenLease &taken, const JobRow &row)
{
	EndingLease ending = ending_of(taken, row);
	(void) end_failed_attempt(segments, ending, failure_by(taken.loss, ending.run.token), true);
}

/*
 * Read the row again under the lease. If another transaction has locked the row or is changing it,
 * lock the row first, and read the version that the other transaction leaves.
 */
static bool
locate_again(SegmentSet &segments, int64 job_id, LeaseEnd how, JobRow *row)
{
	bool ends = is_by_id(how);
	auto lock = ends ? lock_job : lock_job_to_change;
	if (locate_job(segments, row->place, job_id, true, row) != WriteResult::kDone)
		return false;
	return !is_touched(row->tuple->t_data) ||
		   (lock(segments, row->place, job_id) == WriteResult::kDone &&
			locate_job(segments, row->place, job_id, true, row) == WriteResult::kDone);
}

JobFound
find_waiting(SegmentSet &segments, int64 job_id, LeaseEnd how, JobRow *row, TakenLease *taken)
{
	do
	{
		QueueRef ref;
		CHECK_FOR_INTERRUPTS();
		if (!locate_permitted(segments, Place{}, job_id, Permission::kChange, row))
			return JobFound::kNone;
		/*
		 * Leases belong to queues. If the queue does not exist, no worker can have a lease of the
		 * job.
		 */
		if (!attach_queue_by_id(tables(), row->queue_id(), &ref))
			return JobFound::kNone;
		if (take_waiting(*row, how, true, taken))
			break;
		/*
		 * If the queue was dropped during a wait, its transaction may have moved the job to another
		 * queue before. Then locate the row again.
		 */
		if (taken->ref.queue != nullptr)
			return JobFound::kLeased;
	} while (true);
	/* count_lost() may make the job a dead letter, so read the row once more afterwards. */
	if (taken->lost)
		count_lost(segments, *taken, *row);
	if (locate_again(segments, job_id, how, row) && may(Permission::kChange, row->queue_id()))
		return JobFound::kWaiting;
	/* Otherwise the job has ended, or has moved to a queue on which the caller has no right. */
	give_back_gone(*taken);
	return JobFound::kNone;
}

/* ---- a leased job ---- */

static FoundLease
find_lease_of(const Database *db, int64 job_id)
{
	FoundLease found{};
	if (!find_lease(db, job_id, &found.lease, &found.ref))
		found.lease = nullptr;
	return found;
}

bool
may_answer(int64 job_id, int32 *queue_id)
{
	FoundLease found = find_lease_of(tables().database, job_id);
	*queue_id = found.lease != nullptr ? found.ref.queue_id : 0;
	return found.lease == nullptr || may(Permission::kAnswer, *queue_id);
}

bool
is_handed_out(const Lease *lease, int64 token)
{
	return token_of(lease) == token && lease->state == LeaseState::kClaimed && !lease->doomed;
}

namespace {

enum class Access : uint8
{
	kInHand, /* this transaction uses or ends the lease */
	kStale,
	kOthers, /* another transaction is claiming or ending the job */
};

} // namespace
/*
 * Return whether this transaction must wait because another open transaction uses the lease or has
 * claimed the job. Set *other to that transaction.
 */
static bool
is_in_other_hands(const Lease *lease, VirtualTransactionId *other)
{
	/*
	 * A transaction that uses the lease may end it. A transaction that has claimed the job may roll
	 * back, which undoes the claim.
	 */
	auto is_anothers = [](const VirtualTransactionId &open) {
		return VirtualTransactionIdIsValid(open) && !is_me(open);
	};
	*other = is_anothers(lease->user) ? lease->user : lease->claimer;
	return is_anothers(*other);
}

/*
 * Return whether a record will be written when the attempt ends as `how` says, so that its data
 * (Run) are needed.
 */
static bool
wants_run(const QueueOptions &options, LeaseEnd how)
{
	switch (how)
	{
		case LeaseEnd::kAcked:
			return keeps_finished(options) || is_recorded(options, Outcome::kAcked);
		case LeaseEnd::kFailed:
			return is_recorded(options, Outcome::kFailed);
		case LeaseEnd::kReleased:
			return is_recorded(options, Outcome::kReleased);
		default:
			return false;
	}
}

static Access
reach_for(const FoundLease &found, int64 job_id, int64 token, Intent intent, LeaseEnd how,
		  EndingLease *ending, VirtualTransactionId *other)
{
	Access access = Access::kStale;
	reserve_lease_effects(1);
	(void) change_found_lease(found, job_id, [&](QueueHold &hold, Lease *lease) {
		if (!is_handed_out(lease, token))
			return;
		/* The worker is told of the cancel: if that is undone, the lease is lost. */
		if (intent == Intent::kEndUncancelled && lease->revoked > 0)
		{
			lease->told = true;
			return;
		}
		if (is_in_other_hands(lease, other))
		{
			access = Access::kOthers;
			return;
		}
		/* If this transaction has already ended the lease, the token is stale. */
		if (lease->ending)
			return;
		note_ending(hold.ref(), lease, ending);
		if (wants_run(hold->options, how))
			note_run(lease, &ending->run);
		if (intent == Intent::kAssert)
			use_to_the_end(ending->ref, lease);
		else
			end_at_commit(ending->ref, lease, how);
		access = Access::kInHand;
	});
	return access;
}

bool
take_in_hand(int64 job_id, int64 token, Intent intent, LeaseEnd how, EndingLease *ending)
{
	for (;;)
	{
		VirtualTransactionId other;
		FoundLease found = find_lease_of(tables().database, job_id);
		if (found.lease == nullptr || !may(Permission::kAnswer, found.ref.queue_id))
			return false;
		Access access = reach_for(found, job_id, token, intent, how, ending, &other);
		if (access != Access::kOthers)
			return access == Access::kInHand;
		VirtualXactLock(other, true);
		if (any_prepared())
			resolve_prepared();
		CHECK_FOR_INTERRUPTS();
	}
}

Revoked
revoke(int64 job_id, LeaseEnd how, uint64 *serial, EndingLease *ending, VirtualTransactionId *other)
{
	Revoked result = Revoked::kAgain;
	uint64 call = 0;
	bool with_others = false;
	reserve_lease_effects(2);
	(void) change_lease(tables().database, job_id, [&](QueueHold &hold, Lease *lease) {
		if (lease->state != LeaseState::kClaimed)
			return;
		/* Revoke each lease only once. */
		if (serial_of(lease) != *serial)
			revoke_until_end(hold.ref(), lease);
		*serial = serial_of(lease);
		/* Wait for another transaction that uses the lease: it may be acknowledging the job. */
		*other = lease->user;
		bool free = !VirtualTransactionIdIsValid(*other);
		if (!free && !is_me(*other))
		{
			result = Revoked::kWait;
			call = lease->call;
			with_others = lease->with_others;
			return;
		}
		/* No other transaction uses the lease: end the lease with this transaction. */
		note_ending(hold.ref(), lease, ending);
		note_run(lease, &ending->run);
		end_at_commit(ending->ref, lease, how);
		result = Revoked::kInHand;
	});
	/*
	 * The call of a handler uses the lease. Interrupt the call, since otherwise the cancel would
	 * wait for its end. If the call has more jobs, its worker runs the other jobs again, and looks
	 * at this lease again.
	 */
	if (cancel_handler_call(call) && !with_others)
		(void) change_lease(tables().database, job_id, [&](QueueHold &, Lease *lease) {
			lease->told |= serial_of(lease) == *serial;
		});
	return result;
}

} // namespace pgq
