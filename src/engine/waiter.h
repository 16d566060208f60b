/*
 * Waiters: claims that wait for a job, and idle workers of handlers. Each queue has a line of
 * waiters: the claims, served from the head, and behind all of them the workers. A waiter that was
 * woken but found no job goes to the end of the claims or workers.
 *
 * A commit that brings n jobs removes n waiters from the line and wakes them. A woken waiter must
 * take a job, or pass the wake-up on when it leaves for any reason (timeout, cancel, a job from
 * another queue, death). The entries of a process are in shared memory, under its procno. If the
 * process does not release them, the (sub)transaction abort callback does.
 *
 * One waiter of a queue, its watcher, also wakes when the next scheduled job becomes due, or when
 * the rate limit lets one more job start. When the watcher leaves, the next waiter in line is woken
 * and becomes the watcher.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/* Wake the watcher of the queue, so that it computes its sleep again: the clock was set. */
void wake_watcher(const QueueRef &ref);

/*
 * Join the lines of n queues; this process's entry number i is for refs[i]. is_worker: this process
 * is the worker of a handler, and waits behind all claims.
 */
void join_lines(const QueueRef *refs, int n, bool is_worker);

/*
 * Leave all lines. If this process was woken in a line, wake the next process of that line, but not
 * in the line of `served`: the queue that has given this process a job (NULL: none). Cannot fail.
 */
void leave_lines(const Queue *served);

/*
 * Leave all lines, in order to look for jobs at once, and wake nobody: otherwise idle processes
 * would wake each other without end. If this process takes a job or ends, it must let other
 * processes care for the jobs that are left in all these queues (QueueHold::care_for_rest(),
 * hand_over()). Cannot fail.
 */
void leave_lines_to_look();

/* Return whether this process is in any line. */
bool in_lines();

/* The earliest times that this process has to watch for, as the watcher of some queues. */
struct Alarm
{
	TimestampTz run_at = INT64_MAX;
	int64 start = INT64_MAX; /* monotonic: when a rate limit lets one more job start */
};

/*
 * Join the lines again, at the end, with the entries that were woken. Become the watcher of queues
 * that have none. Return true if this process was woken since the last call. Then it must not
 * sleep, since its latch may have been reset.
 */
bool rejoin_lines(Alarm *alarm);

} // namespace pgq
