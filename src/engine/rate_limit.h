/*
 * The rate limit of a queue: how many of its jobs may start in a period (options rate_limit,
 * rate_period).
 *
 * A job starts when it is handed out. A job that a claim has taken but not handed out yet counts
 * too; otherwise several claims together could exceed the limit. The start is noted in the hold
 * that hands the job out, not in the hold that takes the job: otherwise the start could be
 * forgotten too early if the claim is slow.
 *
 * At a clean stop the counts are saved, as leases are (starts_copy.h). Without saved counts,
 * earlier starts are unknown: until this server opened the data, another server may have handed out
 * jobs from the same data. So a queue that is loaded begins as if all starts that the limit allows
 * had happened at the moment at which this server opened the data.
 *
 * All functions are called under the queue's lock, except forget_starts() and unknown_starts_end().
 * None can fail.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/* Return how many more jobs may be taken by claims now. */
inline int
room_to_start(Queue *queue)
{
	int limit = queue->options.rate_limit;
	if (limit == 0)
		return INT_MAX;
	return static_cast<int>(Max(limit - queue->claiming - queue->rate.started(monotonic_now()), 0));
}

inline void
note_start(Queue *queue)
{
	if (queue->options.rate_limit > 0)
		queue->rate.note(1, monotonic_now());
}

/* Prepare for new options, before the caller stores them. A new limit counts only later starts. */
inline void
change_rate(Queue *queue, const QueueOptions &options)
{
	if (options.rate_limit == 0 && options.group_rate_limit == 0)
		queue->unknown_until = 0;
	if (queue->options.rate_limit == 0)
		queue->rate.restart(options.rate_period, monotonic_now());
	else if (queue->options.rate_period != options.rate_period)
		queue->rate.set_period(options.rate_period, monotonic_now());
	if (queue->options.rate_period != options.rate_period && queue->unknown_until > monotonic_now())
		queue->unknown_until = queue->rate.all_forgotten(monotonic_now());
}

/*
 * Return the latest time at which jobs of a queue that is loaded now may have been handed out
 * without being counted in its slot.
 */
inline int64
unknown_starts_end()
{
	auto since = static_cast<int64>(value_of(shared->starts_known_since));
	return since == 0 ? monotonic_now() : since;
}

/* Initialize the rate of a queue that gets a slot. Its options are already set. */
inline void
init_rate(Queue *queue)
{
	int64 since = unknown_starts_end();
	queue->rate.restart(queue->options.rate_period, since);
	queue->rate.note(queue->options.rate_limit, since);
	queue->next_start = INT64_MAX;
	bool limited = queue->options.rate_limit > 0 || queue->options.group_rate_limit > 0;
	queue->unknown_until = limited ? queue->rate.all_forgotten(since) : 0;
}

/*
 * Note that the queue was just created: none of its jobs has started, so no earlier start has to be
 * assumed.
 */
inline void
no_starts(Queue *queue)
{
	queue->unknown_until = 0;
	queue->rate.restart(queue->options.rate_period, monotonic_now());
}

/* Note that the number of earlier starts is unknown: another server may have handed out jobs. */
inline void
forget_starts()
{
	pg_atomic_write_u64(&shared->starts_known_since, monotonic_now());
}

/*
 * Return the earliest time (monotonic) at which a job may start that waits for the rate limit of
 * the queue or of its group.
 */
inline int64
earliest_start(const Queue &queue)
{
	return Min(queue.next_start, queue.schedule.groups().rates().next_time());
}

/*
 * Compute next_start, the time at which one more job may start, if jobs wait only for the rate
 * limit. While claims in progress have taken all starts that the limit allows, this time is
 * unknown; the end of such a claim computes it again.
 */
inline void
plan_next_start(Queue *queue)
{
	int64 limit = queue->options.rate_limit - queue->claiming;
	bool waits = limit > 0 && !queue->schedule.exhausted() && room_to_start(queue) == 0;
	queue->next_start = waits ? queue->rate.less_than(limit, monotonic_now()) : INT64_MAX;
}

} // namespace pgq
