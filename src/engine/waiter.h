/*
 * Waiters: claims that wait for a job. Each queue has a line, served from its head. A waiter that
 * was woken for nothing goes to the end.
 *
 * A commit that brings n jobs takes n waiters off the line and wakes them. A waiter that was woken
 * owes something: it must take a job, or pass the wake-up on when it leaves for any reason
 * (timeout, cancel, a job from another queue, death). The entries of a process are in shared memory
 * under its procno. If the process does not release them, the (sub)transaction abort callback does.
 *
 * One waiter of a queue, its watcher, sleeps only until the queue's next timer. When the watcher
 * leaves, the next in line is woken and takes over.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/* Let the watcher compute anew how long to sleep, since the clock was set. */
void wake_watcher(const QueueRef &ref);

/* Join the lines of n queues; entry i is for refs[i]. */
void join_lines(const QueueRef *refs, int n);

/*
 * Leave all lines. A wake-up is passed on, except for that of `served`, the queue that has given
 * this process a job (NULL: none). Cannot fail.
 */
void leave_lines(const Queue *served);

/* Return whether this process is in any line. */
bool in_lines();

/* The earliest times that this process has to watch for, as the watcher of some queues. */
struct Alarm
{
	TimestampTz run_at = INT64_MAX;
	int64 start = INT64_MAX; /* monotonic: when a rate lets one more job start */
};

/*
 * Join the lines again, at the end, for entries that were woken. Become the watcher of queues that
 * have none. Return true if this process was woken since its last look: its latch may have been
 * reset, so it must not sleep.
 */
bool rejoin_lines(Alarm *alarm);

} // namespace pgq
