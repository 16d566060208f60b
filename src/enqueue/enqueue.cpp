#include "enqueue/enqueue.h"

#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "catalog/subscription.h"
#include "engine/registry.h"
#include "engine/token.h"
#include "enqueue/member.h"
#include "load/attach.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Find the queue by find(&ref), which returns false if there is no such queue, and lock it for writing.
 * After a wait find it again: another queue may have got the name, or a right may have been revoked.
 */
template <typename Find>
static bool
lock_for_writing(QueueRef *ref, Find find)
{
	while (find(ref))
	{
		if (!lock_queue(ref->queue_id, QueueLock::kWriters, RowExclusiveLock, false))
		{
			(void) lock_queue(ref->queue_id, QueueLock::kWriters, RowExclusiveLock, true);
			continue;
		}
		/*
		 * Locking the segment processes invalidations. So check now whether the queue was dropped,
		 * or a subscription was created.
		 */
		LockRelationOid(look_at_tables().current(kJobRing).heap, RowExclusiveLock);
		refuse_if_subscribed();
		if (is_alive(*ref))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

QueueRef
queue_for_enqueue(const char *name, Permission permission)
{
	QueueRef ref;
	(void) lock_for_writing(&ref, [&](QueueRef *found) {
		*found = resolve_queue(tables(), name, permission);
		return true;
	});
	return ref;
}

bool
queue_for_publish(int32 queue_id, QueueRef *ref)
{
	return lock_for_writing(
		ref, [&](QueueRef *found) { return attach_queue_by_id(tables(), queue_id, found); });
}

/*
 * Protect new jobs from late acks with old leases. A standby that is promoted without the newest
 * jobs assigns their ids again, so a lease from before the promotion may name a new job. Usually
 * the times show this: the job was enqueued after the lease was given, so the late ack is refused.
 * But the clock can be behind the times in the tokens, for example in the first minute after a
 * start. Then a fence in the new row refuses the late ack.
 */
static void
fence_new_jobs(NewJob *jobs, int n)
{
	TimestampTz last = time_of_prefix(last_prefix_drawn());
	int64 base = -1;
	for (int i = 0; i < n; i++)
	{
		TimestampTz enqueued_at = DatumGetTimestampTz(jobs[i].values[kJobEnqueuedAt - 1]);
		if (enqueued_at > last || !jobs[i].nulls[kJobFence - 1])
			continue;
		if (base < 0)
			base = read_load(tables().database, tables().database_generation).base_prefix;
		if (base > 0 && enqueued_at <= time_of_prefix(base - 1))
			jobs[i].set(kJobFence, Int64GetDatum(fence_below(tables().database, base)));
	}
}

/* Insert the jobs, whose hints are reserved. ref_of(i): the queue of job i. */
template <typename RefOf>
static void
insert_and_file(NewJob *jobs, int n, RefOf ref_of, int64 *ids, AddedMembers *added)
{
	auto *hints = static_cast<Hint *>(palloc(n * sizeof(Hint)));
	fence_new_jobs(jobs, n);
	Members members(jobs, n);
	members.join();
	insert_jobs(jobs, n, hints);
	members.confirm();
	for (int i = 0; i < n; i++)
	{
		const QueueRef &ref = ref_of(i);
		add_hint(ref, hints[i], true);
		if (hints[i].delayed)
			note_due(ref, tables().queue, hints[i].key.run_at, 1);
		if (ids != nullptr)
			ids[i] = hints[i].key.job_id;
	}
	pfree(hints);
	members.note(added);
}

void
enqueue_jobs(const QueueRef &ref, NewJob *jobs, int n, int64 *ids, AddedMembers *added)
{
	reserve_hints(ref, tables().queue, n);
	insert_and_file(
		jobs, n, [&](int) -> const QueueRef & { return ref; }, ids, added);
}

void
enqueue_jobs_of_queues(const QueueRef *refs, NewJob *jobs, int n, int64 *ids)
{
	for (int i = 0; i < n; i++)
		reserve_hints(refs[i], tables().queue, 1);
	insert_and_file(
		jobs, n, [&](int i) -> const QueueRef & { return refs[i]; }, ids, nullptr);
}

} // namespace pgq
