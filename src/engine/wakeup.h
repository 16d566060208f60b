/*
 * Wake-ups after a change of a queue. Only for this folder: other folders change a queue through
 * hold.h, which collects wake-ups under the lock and delivers them after its release.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/*
 * The latches to set after the release of the lock: the latches of waiters, as many as the array
 * can take, and the latch of the watcher. Each waiter that is removed from its line must be woken.
 * If more waiters should wake, the woken waiters pass the wake-up on. Processes that wait for a
 * result are woken by result_wait.h.
 */
struct Wakeups
{
	int count = 0;
	int procno[kHoldMax + 2];

	void add(int who)
	{
		Assert(count < static_cast<int>(lengthof(procno)));
		if (count < static_cast<int>(lengthof(procno)))
			procno[count++] = who;
	}
	/* Return whether the array can take a waiter, while one place is kept for the watcher. */
	bool takes_waiters() const { return count + 1 < static_cast<int>(lengthof(procno)); }
	void deliver()
	{
		for (int i = 0; i < count; i++)
			SetLatch(latch_of(procno[i]));
		count = 0;
	}
};

/*
 * Remove up to n waiters from the line and add them to the wake-ups. Return their number. Called
 * under the queue's lock.
 */
int wake_waiters(Queue *queue, int n, Wakeups *wakeups);

/*
 * Note that hints were filed. Remove a waiter from the line for each ready job, wake the watcher if
 * its sleep has to end earlier than before (`sooner`), and note that a NOTIFY is to be sent. Return
 * true if the scheduler should be woken. Called under the queue's lock.
 */
bool note_filed(Queue *queue, int ready, bool sooner, Wakeups *wakeups);

/*
 * Wake the next waiter in line. wake_one() does so in any case. pass_on() does so only if jobs are
 * left, and hand_over() also if no process watches for the jobs that become due later. Return true
 * if there is no waiter, and the scheduler should be woken instead, to start a worker for the
 * handler of the queue. Called under the queue's lock.
 */
bool wake_one(Queue *queue, Wakeups *wakeups);
bool pass_on(Queue *queue, Wakeups *wakeups);
bool hand_over(Queue *queue, Wakeups *wakeups);

} // namespace pgq
