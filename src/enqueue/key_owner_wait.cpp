#include "enqueue/key_owner_wait.h"

#include "catalog/queue_lock.h"
#include "rows/write.h"
#include "steps/waiting.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Wait for the row by locking it until this transaction ends. The lock also keeps the job from
 * claims, as the hold would.
 */
static void
wait_for_row(const KeyedJob &job)
{
	SegmentSet segments(RowShareLock);
	(void) keep_job(segments, job.hint.place, job.job_id());
	segments.close();
}

/*
 * Take the turn at the owner, or wait for the session that has the turn. Before that, give up the
 * turn at any other job. Returns true if this call may have waited, so that the search must look at
 * the job again.
 */
static bool
take_turn(OwnerSearch *search)
{
	int64 job_id = search->owner.job_id();
	if (search->passes)
	{
		end_search(search);
		(void) lock_turn(job_id, ShareLock, true);
		unlock_turn(job_id, ShareLock);
		return true;
	}
	if (!search->wants_turn || search->turn == job_id)
		return false;
	end_search(search);
	(void) lock_turn(job_id, ExclusiveLock, true);
	search->turn = job_id;
	return true;
}

void
wait_for_decision(SegmentSet &segments, OwnerSearch *search)
{
	segments.close();
	if (take_turn(search))
		return;
	if (search->locked)
		return wait_for_row(search->owner);
	if (search->claiming)
		return wait_for_claim(search->owner.job_id(), search->vxid);
	if (!TransactionIdIsValid(search->xid))
		return wait_for_transaction(search->vxid);
	XactLockTableWait(search->xid, nullptr, nullptr, XLTW_None);
	if (any_prepared())
		resolve_prepared();
	CHECK_FOR_INTERRUPTS();
}

void
end_search(OwnerSearch *search)
{
	if (search->turn != 0)
		unlock_turn(search->turn, ExclusiveLock);
	search->turn = 0;
}

} // namespace pgq
