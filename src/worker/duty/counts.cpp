/*
 * How many jobs a queue has is known again after a start, and after what made the count doubtful; and of
 * those that wait it is known by the second before their time comes. A million jobs take a third of a second:
 * where there are many, the counter does it.
 */
#include "engine/lease.h"
#include "load/count.h"
#include "worker/counter.h"
#include "worker/turn.h"
#include "worker/worker.h"

namespace pgq {

bool
wants_counts(const Turn &turn, bool)
{
	return (turn.wants_count || turn.wants_part) && !counter_is_running();
}

/* body is called with the tables that can be had. False: none can just now, or it has said so. */
template <typename Body>
static bool
with_segments_at_hand(Body body)
{
	bool done = false;
	worker_transaction([&] {
		if (!lock_tables(AccessShareLock))
			return;
		const Tables *t = tables_if_attached();
		if (t != nullptr && t->has_segments)
			done = body();
	});
	return done;
}

/* Nothing is changed, so a publisher's jobs can be counted as well. */
int64
count_at_once(const QueueRef &ref, const Turn &turn)
{
	bool done = with_segments_at_hand(
		[&] { return turn.wants_count ? count_jobs_now(ref) : read_next_part(ref); });
	return done ? INT64_MAX : monotonic_now() + kParkTime;
}

int64
count_rows(const QueueRef &ref, const Turn &turn)
{
	bool many = false;
	if (!with_segments_at_hand([&] {
			many = rows_are_many();
			return true;
		}))
		return monotonic_now() + kParkTime;
	if (!many)
		return count_at_once(ref, turn);
	start_counter(MyDatabaseTableSpace);
	return INT64_MAX;
}

} // namespace pgq
