/*
 * The end of leases when a transaction or a prepared transaction ends. Only note_row_of_lease() and
 * note_all_rows_gone(), which are called before that end, may raise an error.
 */
#include "engine/copies.h"
#include "engine/handler_slot.h"
#include "engine/held.h"
#include "engine/hold.h"
#include "txn/effects.h"
#include "txn/pending.h"

#include <algorithm>

namespace pgq {

JobEnd
end_of(LeaseEnd how, bool dead)
{
	switch (how)
	{
		case LeaseEnd::kAcked:
		case LeaseEnd::kFinished:
			return JobEnd::kAcked;
		case LeaseEnd::kCancelled:
			return JobEnd::kCancelled;
		case LeaseEnd::kExpired:
			return JobEnd::kExpired;
		default:
			return dead ? JobEnd::kDead : JobEnd::kUnknown;
	}
}

JobEnd
own_end_of(int64 job_id)
{
	for (const EarlyEffect &effect : pending.effects.early)
		if (effect.job_id == job_id && effect.end != JobEnd::kUnknown)
			return effect.end;
	const List<LeaseEffect> &leases = pending.effects.leases;
	for (const LeaseEffect *effect = leases.end(); effect-- > leases.begin();)
		if ((effect->ends() || effect->kind == LeaseEffect::kTell) && still_ours(*effect) &&
			effect->lease->key.job_id == job_id)
			if (JobEnd end = end_of(effect->how, effect->dead); end != JobEnd::kUnknown)
				return end;
	return JobEnd::kUnknown;
}

void
count_end(Lease *lease, LeaseEnd how, bool dead, int64 monotonic, QueueHold &hold)
{
	hold.tell(lease->key.job_id, end_of(how, dead));
	QueueCounters &counters = lease->queue->counters;
	counters.expired += how == LeaseEnd::kExpired;
	counters.dead_lettered += dead;
	int64 *counter = counters.of(how);
	/* If the job was cancelled while it waited, no worker had it, so no attempt ends. */
	bool waited = how == LeaseEnd::kCancelled && lease->state == LeaseState::kClaiming;
	if (counter == nullptr || waited)
		return;
	/*
	 * A CLAIMING lease belongs to a late ack, whose job was handed out before the last start, or to
	 * a waiting job that pgq_finish() ends. So count the hand-out now.
	 */
	counters.handed_out += lease->state == LeaseState::kClaiming;
	++*counter;
	note_wait(lease, monotonic);
	note_end(lease, how, monotonic);
}

void
let_go(Lease *lease, QueueHold &hold)
{
	if (drop_holder(lease, pending.holder))
		hold.give_back(lease);
}

/*
 * Doom the lease, since its claim was rolled back. If no transaction uses the lease, it is lost at
 * once. Otherwise it is lost when the transaction ends that uses it, for example to cancel the job.
 * In a queue with undo_rolled_back_claims the job is then given back instead (QueueHold::doom()).
 */
void
lose_claimed(Lease *lease, int64 monotonic, QueueHold &hold)
{
	SetInvalidVirtualTransactionId(lease->claimer);
	lease->times.forget();
	unpin_lease(lease);
	hold.doom(lease, Loss::kUndone, monotonic);
}

/* Put back a job on which its worker has not begun to work, without counting the attempt. */
static void
put_back_unbegun(Lease *lease, int64 monotonic, QueueHold &hold)
{
	count_end(lease, LeaseEnd::kUncounted, false, monotonic, hold);
	hold.give_back(lease);
}

/*
 * Undo a revocation. If the worker was told that its lease is revoked, the worker may have stopped,
 * and would never end the lease. So doom the lease, or put the job back if the worker has not begun.
 * (If another transaction still uses that lease, the job goes back at the deadline.)
 */
void
undo_revocation(Lease *lease, int64 monotonic, QueueHold &hold)
{
	lease->revoked--;
	if (!lease->told || lease->state != LeaseState::kClaimed || lease->doomed)
		return;
	if (!lease->unbegun)
		hold.doom(lease, Loss::kUndoneCancel, monotonic);
	else if (lease->revoked == 0 && lease->pins == 0)
		put_back_unbegun(lease, monotonic, hold);
}

void
interrupt_cancelled(const List<LeaseEffect> &leases)
{
	if (max_handler_workers == 0)
		return;
	for (const LeaseEffect &effect : leases)
	{
		if (effect.kind != LeaseEffect::kEnd || !is_by_id(effect.how))
			continue;
		uint64 call = effect.lease->call;
		if (still_ours(effect))
			(void) cancel_handler_call(call);
	}
}

void
give_back_unbegun(const QueueRef &ref, Lease *lease, uint64 serial)
{
	(void) change_queue(ref, [&](QueueHold &hold) {
		if (serial_of(lease) != serial || lease->state != LeaseState::kClaimed || lease->doomed ||
			lease->prepared.any())
			return;
		lease->unbegun = true;
		if (lease->pins > 0)
			lease->told = lease->revoked > 0;
		else
			put_back_unbegun(lease, monotonic_now(), hold);
	});
}

/* Return whether the claimed job can be worked on: its lease is current, and it is not cancelled. */
static bool
is_workable(const Lease *lease, uint64 serial)
{
	return serial_of(lease) == serial && lease->state == LeaseState::kClaimed && !lease->doomed &&
		   lease->revoked == 0 && lease->rows_gone.at_all <= 0;
}

bool
begin_work(const QueueRef &ref, Lease *lease, uint64 serial, uint64 call, bool with_others)
{
	bool begun = false;
	(void) change_queue(ref, [&](QueueHold &) {
		begun = is_workable(lease, serial);
		if (!begun)
			return;
		lease->unbegun = false;
		lease->call = call;
		lease->with_others = with_others;
	});
	return begun;
}

bool
stop_work(const QueueRef &ref, Lease *lease, uint64 serial)
{
	bool workable = false;
	(void) change_queue(ref, [&](QueueHold &) {
		workable = is_workable(lease, serial);
		lease->unbegun |= workable;
	});
	return workable;
}

bool
leave_to_cancel(const QueueRef &ref, Lease *lease, uint64 serial)
{
	bool cancelled = false;
	(void) change_queue(ref, [&](QueueHold &) {
		cancelled = serial_of(lease) == serial && lease->state == LeaseState::kClaimed &&
					lease->revoked > 0;
		if (cancelled)
			lease->told = true;
	});
	return cancelled;
}

/* ---- rows that SQL statements delete or move ---- */

/*
 * If the job has a lease, register a row effect: change(queue of the lease, lease) returns by how
 * much this transaction has just changed the number of missing rows of the job.
 */
template <typename Change>
static void
note_rows_gone(const Database *db, int64 job_id, Change change)
{
	Lease *lease;
	QueueRef of_lease;
	if (!find_lease(db, job_id, &lease, &of_lease))
		return;
	reserve_lease_effects(1);
	(void) change_found_lease({lease, of_lease}, job_id, [&](QueueHold &, Lease *found) {
		RowsGone gone = change(of_lease, found);
		pending.effects.leases.push({LeaseEffect::kRow, LeaseEnd::kUncounted, false, gone,
									 current_tag(), of_lease, found, serial_of(found)});
	});
}

void
note_row_of_lease(const Database *db, int32 queue_id, int64 job_id, RowMove move)
{
	int8 sign = move == RowMove::kInserted || move == RowMove::kEntered ? -1 : 1;
	bool exists = move == RowMove::kLeft || move == RowMove::kEntered;
	note_rows_gone(db, job_id, [&](const QueueRef &of_lease, const Lease *) -> RowsGone {
		int8 here = of_lease.queue_id == queue_id ? sign : 0;
		return {here, exists ? int8{0} : sign};
	});
}

bool
deletes_row_of(const Lease *lease, uint64 serial)
{
	RowsGone gone{};
	for (const LeaseEffect &effect : pending.effects.leases)
		if (effect.kind == LeaseEffect::kRow && effect.lease == lease && effect.serial == serial)
			gone.add(effect.gone);
	return gone.at_all > 0;
}

namespace {
/* The sum of the row effects that this transaction has registered for one lease. */
struct RowSum
{
	const Lease *lease;
	uint64 serial;
	RowsGone gone;

	bool operator<(const RowSum &other) const
	{
		return lease != other.lease ? lease < other.lease : serial < other.serial;
	}
};

} // namespace
/* Fill `sums` with one sum for each lease, sorted by lease. Returns the end. */
static RowSum *
sum_row_effects(RowSum *sums)
{
	RowSum *end = sums;
	for (const LeaseEffect &effect : pending.effects.leases)
		if (effect.kind == LeaseEffect::kRow)
			*end++ = {effect.lease, effect.serial, effect.gone};
	std::sort(sums, end);
	RowSum *last = sums;
	for (const RowSum *next = sums; next < end; next++)
		if (last > sums && !(last[-1] < *next))
			last[-1].gone.add(next->gone);
		else
			*last++ = *next;
	return last;
}

/* Return how many rows of the job are missing, including the effects of this transaction. */
static RowsGone
rows_gone_by_now(const Lease *lease, const RowSum *sums, const RowSum *end)
{
	RowsGone gone = lease->rows_gone;
	const RowSum wanted = {lease, serial_of(lease), {}};
	const RowSum *sum = std::lower_bound(sums, end, wanted);
	if (sum < end && !(wanted < *sum))
		gone.add(sum->gone);
	return gone;
}

void
note_all_rows_gone(const Database *db)
{
	int most = shared->max_leases;
	auto *leases = static_cast<LeaseCopy *>(
		MemoryContextAllocHuge(CurrentMemoryContext, most * sizeof(LeaseCopy)));
	/* The sums keep a row that this transaction has deleted or moved from being counted twice. */
	auto *sums = static_cast<RowSum *>(MemoryContextAllocHuge(
		CurrentMemoryContext, (pending.effects.leases.size + 1) * sizeof(RowSum)));
	const RowSum *end = sum_row_effects(sums);
	auto all_gone = [&](const QueueRef &, const Lease *lease) -> RowsGone {
		RowsGone gone = rows_gone_by_now(lease, sums, end);
		return {static_cast<int8>(1 - gone.here), static_cast<int8>(1 - gone.at_all)};
	};
	for_each_queue(db, [&](const QueueRef &ref) {
		int n = copy_leases(ref, leases, most);
		for (int i = 0; i < n; i++)
			note_rows_gone(db, leases[i].job_id, all_gone);
	});
	pfree(sums);
	pfree(leases);
}

void
end_rowless(Lease *lease, int64 monotonic, QueueHold &hold)
{
	if (lease->state == LeaseState::kClaimed)
	{
		count_end(lease, LeaseEnd::kUncounted, false, monotonic, hold);
		hold.end(lease, true);
	}
	else if (lease->state == LeaseState::kClaiming)
		hold.doom(lease, Loss::kUndone, monotonic);
}

bool
end_if_rows_gone(Lease *lease, int64 monotonic, QueueHold &hold)
{
	bool rowless = lease->rows_gone.at_all > 0;
	if (rowless)
		end_rowless(lease, monotonic, hold);
	return rowless;
}

} // namespace pgq
