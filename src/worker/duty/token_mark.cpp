/*
 * Token mark: it is kept far ahead of the clock while jobs are enqueued or claimed, so that no claim
 * has to do it. Saved leases that have become void by that are deleted.
 */
#include "catalog/token_mark.h"
#include "engine/hold.h"
#include "worker/farewell.h"
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

/* What the durable mark must stay ahead of, if there is more than at the last look. */
static int64
count_events(const Shift &shift)
{
	int64 events = 0;
	for_each_queue(shift.database, [&](const QueueRef &ref) {
		(void) look_at_queue(ref, [&](const Queue &queue) {
			events += queue.counters.enqueued + queue.counters.handed_out;
		});
	});
	return events;
}

int64
keep_token_mark_ahead(Shift &shift)
{
	static constexpr int64 kLead = 30 * USECS_PER_SEC;
	int64 events = count_events(shift);
	if (events != shift.tokens.events && !token_mark_is_ahead(shift.database, kLead))
		worker_transaction([&] {
			if (lock_tables(AccessShareLock))
				advance_token_mark(kLead, false, shift.commit_level);
		});
	/* Where that could not be, since somebody had a lock, it is tried again. */
	if (token_mark_is_ahead(shift.database, kLead))
		shift.tokens.events = events;
	forget_saved_leases(shift);
	return monotonic_now() + kHousekeeping;
}

} // namespace pgq
