/*
 * Wake-ups after a change of a queue. Only for this folder: other folders change a queue through
 * hold.h, which collects wake-ups under the lock and delivers them after its release.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/*
 * Latches to set after the release of the lock: of waiters, as many as there is room for, and of
 * the watcher. A waiter that is taken off its line must be woken. For those left in the line, the
 * woken ones pass the wake-up on. Processes that wait for a result are woken by result_wait.h.
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
	/* Return whether a place is left besides that of the watcher. */
	bool takes_waiters() const { return count + 1 < static_cast<int>(lengthof(procno)); }
	void deliver()
	{
		for (int i = 0; i < count; i++)
			SetLatch(latch_of(procno[i]));
		count = 0;
	}
};

/*
 * Take up to n waiters off the line, to be woken. Return their number. Called under the queue's
 * lock.
 */
int wake_waiters(Queue *queue, int n, Wakeups *wakeups);

/*
 * Note that hints were filed: take a waiter off the line for each ready job, wake the watcher if
 * its next time is sooner (`sooner`), and note a NOTIFY to be sent. Return true if the scheduler
 * should be woken. Called under the queue's lock.
 */
bool note_filed(Queue *queue, int ready, bool sooner, Wakeups *wakeups);

/* Let the next in line look, since jobs are left or may be. Called under the queue's lock. */
void pass_on(Queue *queue, Wakeups *wakeups);

} // namespace pgq
