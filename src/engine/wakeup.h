/*
 * Who is woken when a queue has changed. Only for this folder: others change a queue through
 * hold.h, which collects under the lock and delivers after it has been released.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/*
 * Latches to set after the lock is released: of waiters as many as there is room for, and the watcher's. Who is taken
 * off a line must be woken; who stays in it is passed on to by them. Who waits for a result is woken by
 * result_wait.h.
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
	/* There is a place left besides the watcher's. */
	bool takes_waiters() const { return count + 1 < static_cast<int>(lengthof(procno)); }
	void deliver()
	{
		for (int i = 0; i < count; i++)
			SetLatch(latch_of(procno[i]));
		count = 0;
	}
};

/* Under the queue's lock: take up to n waiters off the line. Returns how many. */
int wake_waiters(Queue *queue, int n, Wakeups *wakeups);

/*
 * Under the queue's lock: hints were filed. Wakes a waiter for each ready job, the watcher if
 * he has to be there sooner than he thinks, and notes the NOTIFY to be sent.
 * Returns true if the scheduler should be woken.
 */
bool note_filed(Queue *queue, int ready, bool sooner, Wakeups *wakeups);

/* Under the queue's lock: jobs are left (or may be), so the next in line should look. */
void pass_on(Queue *queue, Wakeups *wakeups);

} // namespace pgq
