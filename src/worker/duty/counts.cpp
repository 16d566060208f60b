/*
 * Duty: count the jobs of a queue after a start of the server, and whenever the counts have become
 * uncertain. The number of scheduled jobs is kept separately for each second in which jobs become
 * due. These numbers are known for the next seconds only; the duty counts the jobs of later seconds
 * before the clock reaches these seconds. Counting a million jobs takes a third of a second, so the
 * counter process counts queues with many jobs.
 */
#include "catalog/shape.h"
#include "engine/lease.h"
#include "load/count.h"
#include "worker/counter.h"
#include "worker/queue_pass.h"
#include "worker/worker.h"

namespace pgq {

bool
wants_counts(const QueuePass &pass, bool)
{
	return (pass.wants_count || pass.wants_part) && !counter_is_running();
}

/*
 * Call body with the extension's tables locked, without waiting for the locks. Returns false if the
 * locks could not be taken, or if body returned false.
 */
template <typename Body>
static bool
with_segments_at_hand(Body body)
{
	bool done = false;
	worker_transaction([&] {
		if (!lock_tables(AccessShareLock))
			return;
		const Tables *t = tables_if_attached();
		if (t != nullptr && has_whole_segments())
			done = body();
	});
	return done;
}

/*
 * Count the queue in this process. Jobs that a subscription brings are counted, too, since a count
 * changes no row.
 */
int64
count_at_once(const QueueRef &ref, const QueuePass &pass)
{
	bool done = with_segments_at_hand(
		[&] { return pass.wants_count ? count_jobs_now(ref) : read_next_part(ref); });
	return done ? INT64_MAX : monotonic_now() + kParkTime;
}

int64
count_rows(const QueueRef &ref, const QueuePass &pass)
{
	bool many = false;
	if (!with_segments_at_hand([&] {
			many = rows_are_many();
			return true;
		}))
		return monotonic_now() + kParkTime;
	if (!many)
		return count_at_once(ref, pass);
	start_counter(MyDatabaseTableSpace);
	return INT64_MAX;
}

} // namespace pgq
