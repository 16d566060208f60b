#include "jobs/enqueue.h"

#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "catalog/subscription.h"
#include "load/attach.h"
#include "txn/effects.h"

namespace pgq {

QueueRef
queue_for_enqueue(const char *name, Deed deed)
{
	for (;;)
	{
		QueueRef ref = resolve_queue(tables(), name, deed);
		(void) lock_queue(ref.queue_id, QueueLock::kWriters, RowExclusiveLock, true);
		/* With the segment's lock comes the news: the queue may be gone, a subscription there. */
		LockRelationOid(look_at_tables().current(kJobRing).heap, RowExclusiveLock);
		refuse_if_subscribed();
		if (is_alive(ref))
			return ref;
		CHECK_FOR_INTERRUPTS();
	}
}

void
enqueue_jobs(const QueueRef &ref, NewJob *jobs, int n, int64 *ids)
{
	auto *hints = static_cast<Hint *>(palloc(n * sizeof(Hint)));
	reserve_hints(ref, tables().queue, n);
	insert_jobs(jobs, n, hints);
	for (int i = 0; i < n; i++)
	{
		add_hint(ref, hints[i], true);
		if (hints[i].delayed)
			note_due(ref, tables().queue, hints[i].key.run_at, 1);
		ids[i] = hints[i].key.job_id;
	}
	pfree(hints);
}

} // namespace pgq
