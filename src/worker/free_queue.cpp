#include "worker/free_queue.h"

#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "catalog/rights.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "worker/counter.h"

namespace pgq {

/*
 * Raise an error while the counter process is counting a queue with max_depth: the limit cannot be
 * checked before the count has ended, and that can take long.
 */
static void
require_counted(const QueueRef &ref, const char *name)
{
	bool uncounted = false;
	(void) look_at_queue(ref, [&](const Queue &queue) {
		uncounted = queue.count.limited && queue.count.state != JobCount::kKnown;
	});
	if (uncounted && counter_is_running())
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_RESOURCES),
						errmsg("the jobs of queue \"%s\" are being counted", name)));
}

void
require_free_queue(const char *name, Oid maker, const char *maker_name)
{
	QueueRef ref = resolve_queue(tables(), name, Permission::kEnqueue);
	require_right_of(maker, maker_name, Permission::kEnqueue, ref.queue_id, name);
	if (!lock_queue(ref.queue_id, QueueLock::kWriters, RowExclusiveLock, false))
		ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
						errmsg("queue \"%s\" is being dropped", name)));
	require_counted(ref, name);
}

} // namespace pgq
