#include "engine/lease.h"

#include "engine/concurrency.h"
#include "engine/ended_jobs.h"
#include "engine/group.h"
#include "engine/lease_quota.h"
#include "engine/rate_limit.h"
#include "engine/token.h"
#include "pg/scope.h"

namespace pgq {

void
init_leases(LeaseLists *lists)
{
	Tree::init_header(&lists->expiry);
	dlist_init(&lists->leases);
	dlist_init(&lists->parked);
	dlist_init(&lists->lost);
	dlist_init(&lists->prepared);
	lists->entries = lists->parked_count = 0;
	lists->failing = 0;
	lists->leased = lists->unheld = 0;
	lists->latest_wait = 0;
	lists->running = lists->claiming = 0;
	lists->uncounted = false;
	lists->counting = 0;
	lists->recheck_at = 0;
}

/*
 * Return the serial of the next lease. Serials of different queues differ, so code that kept the address of an entry notices if
 * another queue has reused the entry.
 */
static uint64
next_serial(Queue *queue)
{
	uint64 serial = queue->next_serial;
	queue->next_serial += shared->max_queues;
	return serial;
}

/* Fill in a new entry: CLAIMING, and pinned by this process. */
static void
begin_lease(Queue *queue, Lease *entry, const Hint &hint, bool of_reserve)
{
	entry->segment = hint.place.segment;
	/*
	 * Draw the token only after the entry was made: by then the earlier lease of the job has ended, so the new token is greater.
	 */
	pg_atomic_write_u64(&entry->token, draw_token(queue->database, hint.key.job_id));
	pg_atomic_write_u64(&entry->serial, next_serial(queue));
	entry->hint = hint;
	entry->deadline = 0;
	entry->handed_out_at = 0;
	entry->claimed_at = 0;
	entry->times = {0, LeaseTimes::kUnknown, false};
	entry->expires_at = 0;
	entry->state = LeaseState::kClaiming;
	entry->loss = Loss::kUndone;
	entry->aside = nullptr;
	entry->of_reserve = of_reserve;
	entry->put_off = false;
	entry->failures = 0;
	entry->holders = 0;
	entry->missed_count = 0;
	entry->missed_regrouped = false;
	entry->pins = 1;
	entry->attempt = 0;
	entry->pid = MyProcPid;
	entry->claimer = my_virtual_xid();
	SetInvalidVirtualTransactionId(entry->user);
	entry->uses = 0;
	entry->ending = false;
	entry->told = false;
	entry->unbegun = false;
	entry->call = 0;
	entry->with_others = false;
	entry->session_bound = false;
	entry->doomed = false;
	entry->rows_gone = {};
	entry->slot = false;
	entry->lender = entry->borrower = nullptr;
	entry->group = 0;
	entry->counted = queue->counting;
	entry->revoked = 0;
	entry->prepared = {};
	entry->worker[0] = '\0';
	dlist_push_tail(&queue->leases, &entry->in_queue);
	queue->entries++;
}

TakeResult
take_lease(Queue *queue, const Hint &hint, Lease **lease, bool to_end)
{
	LeaseQuota *share = &queue->database->share;
	bool of_reserve = to_end && charge_reserve();
	if (!of_reserve && !charge_lease(share))
	{
		*lease = holder_of(queue, hint.key.job_id);
		return *lease != nullptr ? TakeResult::kHeld : TakeResult::kFull;
	}
	bool found;
	Lease *entry = enter_lease(queue, hint.key.job_id, &found);
	if (entry == nullptr || found)
	{
		of_reserve ? discharge_reserve() : discharge_lease(share);
		*lease = entry;
		return found ? TakeResult::kHeld : TakeResult::kFull;
	}

	pg_atomic_fetch_add_u32(&shared->leases, 1);
	begin_lease(queue, entry, hint, of_reserve);
	*lease = entry;
	return TakeResult::kTaken;
}

bool
is_moving(const Lease *lease)
{
	return lease->state == LeaseState::kClaiming &&
		   VirtualTransactionIdIsValid(lease->queue->mover) &&
		   VirtualTransactionIdEquals(lease->claimer, lease->queue->mover);
}

void
note_missed(Queue *queue, Lease *lease, const Hint &hint)
{
	if (lease->queue != queue)
	{
		if (queue->recheck_at == 0)
			queue->recheck = ChangedRows::none();
		queue->recheck.add(hint);
		queue->recheck_at = monotonic_now() + kParkTime;
		return;
	}
	lease->state == LeaseState::kClaimed ? note_wait(lease, hint) : note_wanted(lease, hint);
	/*
	 * Skip a hint of the row version that was leased. Most hints of jobs with a lease are of this kind, since a refill reads leased
	 * rows too.
	 */
	if (hint.key == lease->hint.key && hint.place == lease->hint.place)
		return;
	if (lease->missed_count > 0 && hint.key == lease->missed.key &&
		hint.group == lease->missed.group)
		return;
	if (lease->missed_count == 0)
		lease->missed = hint;
	lease->missed_regrouped |= hint.group != lease->missed.group;
	lease->missed_count = lease->missed_count == 0 ? 1 : 2;
}

void
set_prepared(Lease *lease, const Prepared &will)
{
	Assert(lease->state == LeaseState::kClaimed || lease->state == LeaseState::kClaiming);
	if (will.any() && !lease->prepared.any())
		dlist_push_tail(&lease->queue->prepared, &lease->in_line);
	if (!will.any() && lease->prepared.any())
		dlist_delete(&lease->in_line);
	lease->prepared = will;
}

/* Remove the lease from the lists and numbers of its present state. The caller then sets the new state. */
static void
leave_state(Lease *lease)
{
	switch (lease->state)
	{
		case LeaseState::kClaimed:
			if (lease->pins == 0)
				stop_expiring(lease);
			set_prepared(lease, {});
			lease->queue->leased--;
			lease->queue->unheld -= is_unheld(lease);
			break;
		case LeaseState::kParked:
			lease->queue->parked_count--;
			dlist_delete(&lease->in_line);
			break;
		case LeaseState::kLost:
			stop_waiting(lease);
			break;
		case LeaseState::kClaiming:
			set_prepared(lease, {});
			break;
		case LeaseState::kReaping:
		case LeaseState::kHeld:
			break;
	}
}

void
hand_out(Lease *lease, const HandOut &what, int64 monotonic, TimestampTz now)
{
	Assert(lease->state == LeaseState::kClaiming && lease->pins > 0);
	lease->attempt = what.attempt;
	lease->handed_out_at = monotonic;
	lease->claimed_at = now;
	lease->times.enqueued_at = what.enqueued_at;
	lease->times.waited = time_between(Max(what.enqueued_at, lease->hint.key.run_at), now);
	lease->times.ran = true;
	lease->hint.place = what.place;
	lease->hint.group = what.group;
	lease->segment = what.place.segment;
	strlcpy(lease->worker, what.worker, sizeof(lease->worker));
	lease->session_bound = what.session_bound;
	lease->unbegun = what.unbegun;
	(void) extend_deadline(lease, what.lease_time, monotonic, now);
	begin_claimed(lease);
	lease->queue->claiming -= lease->slot;
	note_start(lease->queue);
	note_group_start(lease);
	lease->queue->last_claim_at = now;
	lease->queue->counters.handed_out++;
}

void
park_lease(Lease *lease, int64 monotonic)
{
	Assert(lease->state == LeaseState::kClaiming);
	free_slot(lease);
	leave_group(lease);
	lease->state = LeaseState::kParked;
	set_lease_aside(lease, &lease->queue->database->share.parked);
	lease->pins = 0;
	/* If many leases are parked, a long transaction has probably locked the rows. Then try again less often. */
	Queue *queue = lease->queue;
	lease->deadline = monotonic + (queue->parked_count < kManyParked ? kParkTime : kLongParkTime);
	queue->parked_count++;
	dlist_push_tail(&lease->queue->parked, &lease->in_line);
}

void
lose_lease(Lease *lease, Loss loss, int64 monotonic)
{
	Assert(lease->state == LeaseState::kClaimed || lease->state == LeaseState::kReaping ||
		   loss == Loss::kUnreturnable);
	if (lease->state == LeaseState::kClaiming)
	{
		/* Count this claim as an attempt, although it returned no job. Otherwise the next claim would fail at the same row. */
		lease->queue->counters.handed_out++;
		lease->claimed_at = lease->expires_at = wall_now();
	}
	leave_state(lease);
	free_slot(lease);
	leave_group(lease);
	lease->times.forget();
	lease->state = LeaseState::kLost;
	lease->loss = loss;
	lease->pins = 0;
	SetInvalidVirtualTransactionId(lease->claimer);
	SetInvalidVirtualTransactionId(lease->user);
	lease->uses = 0;
	lease->ending = false;
	lease->doomed = false;
	lease->deadline = monotonic;
	dlist_push_tail(&lease->queue->lost, &lease->in_line);
}

/* Keep the deadline, which is the time of the loss: claims use it if no scheduler counts lost attempts. */
void
put_back_lost(Lease *lease)
{
	Assert(lease->state == LeaseState::kReaping);
	lease->state = LeaseState::kLost;
	SetInvalidVirtualTransactionId(lease->claimer);
	lease->pins = 0;
	dlist_push_tail(&lease->queue->lost, &lease->in_line);
}

void
put_off_lost(Lease *lease, bool failed, int64 monotonic)
{
	static constexpr int kMostDoublings = 6;
	Assert(lease->state == LeaseState::kReaping);
	lease->state = LeaseState::kLost;
	SetInvalidVirtualTransactionId(lease->claimer);
	lease->pins = 0;
	if (failed)
		lease->failures = static_cast<uint8>(Min(lease->failures + 1, UINT8_MAX));
	int doublings = Min(Max(lease->failures - 1, 0), kMostDoublings);
	int64 delay = failed ? Min(USECS_PER_SEC << doublings, USECS_PER_MINUTE) : kParkTime;
	lease->deadline = monotonic + delay;
	lease->put_off = true;
	lease->queue->failing += lease->failures > 0;
	start_expiring(lease);
}

void
doom_lease(Lease *lease, Loss loss, int64 monotonic)
{
	if (lease->pins == 0)
		return lose_lease(lease, loss, monotonic);
	lease->queue->unheld += lease->state == LeaseState::kClaimed && !is_unheld(lease);
	lease->doomed = true;
	lease->loss = loss;
}

void
reap_lease(Lease *lease)
{
	Assert(lease->state == LeaseState::kLost);
	leave_state(lease);
	lease->state = LeaseState::kReaping;
	lease->claimer = my_virtual_xid();
	lease->pins = 1;
}

void
retake_lost(Lease *lease)
{
	Assert(lease->state == LeaseState::kLost);
	leave_state(lease);
	lease->doomed = true;
	begin_claimed(lease);
	/* No transaction uses the lease yet, so the lease is in the expiry tree until its first use. */
	lease->pins = 0;
	start_expiring(lease);
}

bool
end_lease(Lease *lease, bool gone)
{
	Queue *queue = lease->queue;
	/* If the job goes on, let its next lease have a greater token than this lease. */
	if (!gone && was_handed_out(lease))
		pass_prefix(prefix_of(token_of(lease)));
	if (was_handed_out(lease))
		note_ended_job(queue, lease->key.job_id);
	Hint missed = lease->missed;
	uint8 missed_count = lease->missed_count;
	bool regrouped = lease->missed_regrouped;
	AsideQuota *aside = lease->aside;
	bool aside_common = lease->aside_common;
	bool of_reserve = lease->of_reserve;
	Hint hint = lease->hint;
	bool moved = is_moving(lease);
	leave_state(lease);
	free_slot(lease);
	leave_group(lease);
	dlist_delete(&lease->in_queue);
	queue->entries--;
	remove_lease(lease);
	pg_atomic_fetch_sub_u32(&shared->leases, 1);
	if (aside != nullptr)
		discharge_aside(&queue->database->share, aside, aside_common);
	else if (of_reserve)
		discharge_reserve();
	else
		discharge_lease(&queue->database->share);

	/*
	 * In a queue with fifo the group may have another head now, so look for the head. After a move
	 * to another segment this is not needed, since the move files a hint of the same job.
	 */
	if (!moved)
		queue->schedule.look_at_group(hint.group);
	if (missed_count == 0)
		return false;
	/* If SQL has changed the group of the row, `missed` has another group than `hint`. */
	queue->schedule.look_at_group(missed.group);
	/* Only the row shows which of several hints is right, so read all rows again, or those of the group. */
	if (missed_count > 1)
		queue->schedule.pull_back(regrouped ? ChangedRows::all()
											: ChangedRows::all_of(missed.group));
	return queue->schedule.file(missed) || missed_count > 1;
}

bool
give_back(Lease *lease)
{
	Queue *queue = lease->queue;
	Hint hint = lease->hint;
	bool ready = end_lease(lease);
	return queue->schedule.file(hint) || ready;
}

void
pin_lease(Lease *lease)
{
	if (can_expire(lease))
		stop_expiring(lease);
	lease->pins++;
}

void
unpin_lease(Lease *lease)
{
	Assert(lease->pins > 0);
	lease->pins--;
	if (can_expire(lease))
		start_expiring(lease);
}

void
use_lease(Lease *lease, const VirtualTransactionId &user, bool ends)
{
	Assert(lease->uses == 0 || VirtualTransactionIdEquals(lease->user, user));
	pin_lease(lease);
	lease->user = user;
	lease->uses++;
	lease->ending |= ends;
}

void
stop_using(Lease *lease, bool ended)
{
	Assert(lease->uses > 0);
	if (ended)
		lease->ending = false;
	if (--lease->uses == 0)
		SetInvalidVirtualTransactionId(lease->user);
	unpin_lease(lease);
}

} // namespace pgq
