/*
 * How leases end, at the end of a transaction and of a prepared one. Nothing in here can fail.
 */
#include "engine/held.h"
#include "engine/hold.h"
#include "txn/effects.h"
#include "txn/pending.h"

namespace pgq {

JobEnd
end_of(LeaseEnd how, bool dead)
{
	switch (how)
	{
		case LeaseEnd::kAcked:
			return JobEnd::kAcked;
		case LeaseEnd::kCancelled:
			return JobEnd::kCancelled;
		case LeaseEnd::kExpired:
			return JobEnd::kExpired;
		default:
			return dead ? JobEnd::kDead : JobEnd::kUnknown;
	}
}

void
count_end(Lease *lease, LeaseEnd how, bool dead, int64 monotonic, QueueHold &hold)
{
	hold.tell(lease->key.job_id, end_of(how, dead));
	QueueCounters &counters = lease->queue->counters;
	counters.expired += how == LeaseEnd::kExpired;
	counters.dead_lettered += dead;
	int64 *counter = counters.of(how);
	/* Nobody had it. */
	bool waited = how == LeaseEnd::kCancelled && lease->state == LeaseState::kClaiming;
	if (counter == nullptr || waited)
		return;
	/* A late ack: the job was handed out before this start. */
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

/* Somebody else may just cancel the job. */
void
lose_claimed(Lease *lease, int64 monotonic, QueueHold &hold)
{
	SetInvalidVirtualTransactionId(lease->claimer);
	lease->times.forget();
	unpin_lease(lease);
	hold.doom(lease, Loss::kUndone, monotonic);
}

/* Its worker may have stopped because of that: then nobody answers for it any more. */
void
undo_revocation(Lease *lease, int64 monotonic, QueueHold &hold)
{
	lease->revoked--;
	if (lease->told && lease->state == LeaseState::kClaimed && !lease->doomed)
		hold.doom(lease, Loss::kUndoneCancel, monotonic);
}

/* ---- jobs whose rows go by hand ---- */

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
