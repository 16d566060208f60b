/*
 * Duty: keep the token mark far ahead of the clock while jobs are enqueued or claimed, so that no
 * claim has to advance the mark. Then delete the saved leases that the new mark has made void.
 */
#include "catalog/token_mark.h"
#include "engine/hold.h"
#include "worker/scheduler_state.h"
#include "worker/shutdown_save.h"
#include "worker/worker.h"

namespace pgq {

/*
 * Return the number of jobs enqueued and handed out since the load of the database. While this
 * number grows, tokens are being drawn, so the mark must be advanced.
 */
static int64
count_events(const SchedulerState &scheduler)
{
	int64 events = 0;
	for_each_queue(scheduler.database, [&](const QueueRef &ref) {
		(void) look_at_queue(ref, [&](const Queue &queue) {
			events += queue.counters.enqueued + queue.counters.handed_out;
		});
	});
	return events;
}

int64
keep_token_mark_ahead(SchedulerState &scheduler)
{
	static constexpr int64 kLead = 30 * USECS_PER_SEC;
	int64 events = count_events(scheduler);
	if (events != scheduler.tokens.events && !token_mark_is_ahead(scheduler.database, kLead))
		worker_transaction([&] {
			if (lock_tables(AccessShareLock))
				advance_token_mark(kLead, false, scheduler.commit_level);
		});
	/*
	 * If the mark could not be advanced, because a lock was not available, the next step tries
	 * again.
	 */
	if (token_mark_is_ahead(scheduler.database, kLead))
		scheduler.tokens.events = events;
	forget_saved_leases(scheduler);
	return monotonic_now() + kHousekeeping;
}

} // namespace pgq
