/*
 * The line of those who wait for a job, one line a queue, served from its head; who was
 * woken for nothing goes to its end.
 *
 * A commit that brings n jobs takes n waiters off the line and wakes them.  A
 * waiter that was woken owes something: it takes a job, or passes the wake-up on
 * when it leaves for any reason (timeout, cancel, a job from another queue, death).
 * The entries of a process are in shared memory under its number (my_procno()) and are
 * released by the (sub)transaction abort callback if need be.
 *
 * One waiter of a queue, its watcher, sleeps until the queue's next timer; when
 * it leaves, the next in line is woken and takes over.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/* Have the watcher compute again until when to sleep: the clock was set. */
void wake_watcher(const QueueRef &ref);

/* This process joins the lines of n queues; entry i is for refs[i]. */
void join_lines(const QueueRef *refs, int n);

/*
 * Leave all lines. A wake-up is passed on, but for that of the queue that has
 * given this process a job (NULL: none has). Cannot fail.
 */
void leave_lines(const Queue *served);

/* Is this process in any line? */
bool in_lines();

/* The earliest that this process has to watch for, as the watcher of some queues. */
struct Alarm
{
	TimestampTz run_at = INT64_MAX;
	int64 start = INT64_MAX; /* monotonic: a rate lets one more start */
};

/*
 * Again at the end of the line for entries that were woken, and watcher where there is none.
 * Returns true if it was woken since: the latch may be consumed, do not sleep.
 */
bool rejoin_lines(Alarm *alarm);

} // namespace pgq
