/*
 * How many jobs a queue has is known again after a start, and after what made the count doubtful; and of
 * those that wait it is known by the second before their time comes. A million jobs take a third of a second.
 */
#include "engine/lease.h"
#include "load/count.h"
#include "worker/turn.h"
#include "worker/worker.h"

namespace pgq {

bool
wants_counts(const Turn &turn, bool)
{
	return turn.wants_count || turn.wants_part;
}

/* Nothing is changed, so a publisher's jobs can be counted as well. */
int64
count_rows(const QueueRef &ref, const Turn &turn)
{
	bool done = false;
	worker_transaction([&] {
		if (!lock_tables(AccessShareLock))
			return;
		const Tables *t = tables_if_attached();
		if (t == nullptr || !t->has_segments)
			return;
		done = turn.wants_count ? count_jobs_now(ref) : read_next_part(ref);
	});
	return done ? INT64_MAX : monotonic_now() + kParkTime;
}

} // namespace pgq
