#include "engine/waiter.h"

#include "engine/rate_limit.h"
#include "engine/wakeup.h"
#include "pg/scope.h"

namespace pgq {

/* Number of this process's entries that may be in use. */
static constinit int joined = 0;

Size
waiters_size()
{
	return mul_size(process_count(), mul_size(max_claim_queues, sizeof(Waiter)));
}

void
place_waiters(void *memory)
{
	shared->waiters = static_cast<Waiter *>(memory);
	memset(memory, 0, waiters_size());
}

void
init_line(WaitingLine *line)
{
	dlist_init(&line->waiters);
	line->waiting = 0;
	line->watcher = kNobody;
}

static Waiter *
my_waiters()
{
	return &shared->waiters[static_cast<Size>(my_procno()) * max_claim_queues];
}

static Waiter *
waiter_of(dlist_node *node)
{
	return container_of<Waiter>(node, offsetof(Waiter, in_line));
}

int
wake_waiters(Queue *queue, int n, Wakeups *wakeups)
{
	int woken = 0;
	while (woken < n && woken < kHoldMax && wakeups->takes_waiters() &&
		   !dlist_is_empty(&queue->waiters))
	{
		Waiter *waiter = waiter_of(dlist_pop_head_node(&queue->waiters));
		waiter->state = Waiter::kWoken;
		queue->waiting--;
		wakeups->add(waiter->procno);
		woken++;
	}
	return woken;
}

void
wake_watcher(const QueueRef &ref)
{
	Queue *queue = ref.queue;
	int watcher = with_lwlock(queue->lock, LW_SHARED,
							  [&] { return pgq::is_current(ref) ? queue->watcher : kNobody; });
	if (watcher != kNobody)
		SetLatch(latch_of(watcher));
}

bool
note_filed(Queue *queue, int ready, bool sooner, Wakeups *wakeups)
{
	bool wake = false;
	if (ready > 0)
	{
		int woken = wake_waiters(queue, ready, wakeups);
		/*
		 * If jobs became ready for which no claim waits, wake the scheduler, which can start a
		 * handler's worker for them.
		 */
		wake = woken < ready && queue->handler.places < queue->handler.allowed();
		if (queue->options.notify && !queue->notify_pending)
		{
			queue->notify_pending = true;
			wake = true;
		}
	}
	if (sooner)
	{
		if (queue->watcher != kNobody)
			wakeups->add(queue->watcher);
		wake = wake || queue->options.notify;
	}
	return wake;
}

void
pass_on(Queue *queue, Wakeups *wakeups)
{
	if (!queue->schedule.exhausted())
		wake_waiters(queue, 1, wakeups);
}

static void
list(Waiter *waiter)
{
	waiter->state = Waiter::kListed;
	dlist_push_tail(&waiter->queue->waiters, &waiter->in_line);
	waiter->queue->waiting++;
}

static bool
is_current(const Waiter *waiter)
{
	return pgq::is_current({waiter->queue, waiter->queue_generation, 0});
}

void
join_lines(const QueueRef *refs, int n)
{
	Assert(joined == 0 && n <= max_claim_queues);
	Waiter *mine = my_waiters();
	for (int i = 0; i < n; i++)
	{
		Waiter *waiter = &mine[i];
		waiter->queue = refs[i].queue;
		waiter->queue_generation = refs[i].generation;
		waiter->procno = my_procno();
		waiter->state = Waiter::kIdle;
		joined = i + 1;
		with_lwlock(waiter->queue->lock, LW_EXCLUSIVE, [&] {
			if (is_current(waiter))
				list(waiter);
		});
	}
}

bool
in_lines()
{
	return joined > 0;
}

bool
rejoin_lines(Alarm *alarm)
{
	bool woken = false;
	*alarm = {};
	Waiter *mine = my_waiters();
	for (int i = 0; i < joined; i++)
	{
		Waiter *waiter = &mine[i];
		Queue *queue = waiter->queue;
		with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
			if (!is_current(waiter))
			{
				woken = true; /* the queue was dropped, so the claim must look at its queues */
				return;
			}
			if (waiter->state == Waiter::kWoken)
			{
				list(waiter);
				woken = true;
			}
			if (queue->watcher == kNobody)
				queue->watcher = my_procno();
			if (queue->watcher != my_procno())
				return;
			alarm->run_at = Min(alarm->run_at, queue->schedule.next_timer());
			alarm->start = Min(alarm->start, earliest_start(*queue));
		});
	}
	return woken;
}

/* Leave all lines. served: as for leave_lines(). looks: this process looks for jobs at once. */
static void
leave_all(const Queue *served, bool looks)
{
	Waiter *mine = my_waiters();
	for (int i = 0; i < joined; i++)
	{
		Waiter *waiter = &mine[i];
		Queue *queue = waiter->queue;
		Wakeups wakeups;
		with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
			/*
			 * When a slot is freed, all waiters are removed from its line. So the state says
			 * whether this waiter is still in a line.
			 */
			bool woken = waiter->state == Waiter::kWoken;
			if (waiter->state == Waiter::kListed)
			{
				dlist_delete(&waiter->in_line);
				queue->waiting--;
			}
			waiter->state = Waiter::kIdle;
			if (!is_current(waiter))
				return;
			bool watched = queue->watcher == my_procno();
			if (watched)
				queue->watcher = kNobody;
			/*
			 * In two cases, wake the next waiter whether or not jobs are left. If this process was
			 * the watcher, another waiter has to become the watcher. If this process was woken, has
			 * taken no job of this queue, and will not look for one now, the job that it was woken
			 * for may be left. In all other cases, pass_on() wakes the next waiter only if jobs are
			 * left.
			 */
			if (watched || (woken && queue != served && !looks))
				wake_waiters(queue, 1, &wakeups);
			else
				pass_on(queue, &wakeups);
		});
		wakeups.deliver();
	}
	joined = 0;
}

void
leave_lines(const Queue *served)
{
	leave_all(served, false);
}

void
leave_lines_to_look()
{
	leave_all(nullptr, true);
}

} // namespace pgq
