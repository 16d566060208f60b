/*
 * How many jobs of a queue start in a period (options rate_limit, rate_period).
 *
 * What is handed out has started, for good; what a claim has taken and not handed out yet counts too, or several
 * claims would find the same room. It is counted as started in the hold that hands it out, not when it was taken: a
 * claim that was slow must not be seen to start after it has been forgotten.
 *
 * At a clean stop the counts are saved, as leases are (starts_copy.h). Otherwise jobs may have been handed out by a server
 * that had this data before us, up to the moment at which ours was opened, and by slots of shared memory that have been
 * given up since: a queue that is loaded counts as if all that may start in a period had started then.
 *
 * Under the queue's lock. Nothing here fails.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/* How many more may be taken now. */
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

/* Before the options become these. A limit holds for what starts after it was set. */
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

/* Until then others may have handed out jobs of a queue that is loaded now. */
inline int64
unknown_starts_end()
{
	auto since = static_cast<int64>(value_of(shared->starts_known_since));
	return since == 0 ? monotonic_now() : since;
}

/* Of a queue that comes into a slot, with its options. */
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

/* Of a queue that has just been created. */
inline void
no_starts(Queue *queue)
{
	queue->unknown_until = 0;
	queue->rate.restart(queue->options.rate_period, monotonic_now());
}

/* Jobs may have been handed out until now that nobody will know of. */
inline void
forget_starts()
{
	pg_atomic_write_u64(&shared->starts_known_since, monotonic_now());
}

/* When somebody may have one more that waits for the queue's rate or for its group's. */
inline int64
earliest_start(const Queue &queue)
{
	return Min(queue.next_start, queue.schedule.groups().rates().next_time());
}

/*
 * When one more may start, if there is a job and it is only for that that it waits. While claims have taken all that
 * may start nobody knows: the end of theirs tells.
 */
inline void
plan_next_start(Queue *queue)
{
	int64 limit = queue->options.rate_limit - queue->claiming;
	bool waits = limit > 0 && !queue->schedule.exhausted() && room_to_start(queue) == 0;
	queue->next_start = waits ? queue->rate.less_than(limit, monotonic_now()) : INT64_MAX;
}

} // namespace pgq
