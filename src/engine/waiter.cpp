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
	dlist_init(&line->workers);
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
	while (woken < n && woken < kHoldMax && wakeups->takes_waiters() && queue->waiting > 0)
	{
		bool claims = !dlist_is_empty(&queue->waiters);
		Waiter *waiter = waiter_of(dlist_pop_head_node(claims ? &queue->waiters : &queue->workers));
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

/*
 * Return whether the scheduler may have to start a worker for a job of the queue, now or at a time
 * for which no other process watches.
 */
static bool
wants_worker(Queue *queue)
{
	if (!queue->handler.has_free_place())
		return false;
	bool later = queue->schedule.next_timer() != INT64_MAX || earliest_start(*queue) != INT64_MAX;
	return !queue->schedule.exhausted() || (later && !queue->options.notify);
}

bool
note_filed(Queue *queue, int ready, bool sooner, Wakeups *wakeups)
{
	bool wake = false;
	if (ready > 0)
	{
		int woken = wake_waiters(queue, ready, wakeups);
		/* The scheduler starts a worker for jobs for which no claim waits. */
		wake = woken < ready && queue->handler.has_free_place();
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
		wake = wake || queue->options.notify || (queue->waiting == 0 && wants_worker(queue));
	}
	return wake;
}

bool
wake_one(Queue *queue, Wakeups *wakeups)
{
	return wake_waiters(queue, 1, wakeups) == 0 && wants_worker(queue);
}

bool
pass_on(Queue *queue, Wakeups *wakeups)
{
	return !queue->schedule.exhausted() && wake_one(queue, wakeups);
}

bool
hand_over(Queue *queue, Wakeups *wakeups)
{
	bool later = queue->schedule.next_timer() != INT64_MAX || earliest_start(*queue) != INT64_MAX;
	bool unwatched = later && queue->watcher == kNobody;
	return (unwatched || !queue->schedule.exhausted()) && wake_one(queue, wakeups);
}

static void
list(Waiter *waiter)
{
	waiter->state = Waiter::kListed;
	Queue *queue = waiter->queue;
	dlist_push_tail(waiter->is_worker ? &queue->workers : &queue->waiters, &waiter->in_line);
	queue->waiting++;
}

static bool
is_current(const Waiter *waiter)
{
	return pgq::is_current({waiter->queue, waiter->queue_generation, 0});
}

void
join_lines(const QueueRef *refs, int n, bool is_worker)
{
	Assert(joined == 0 && n <= max_claim_queues);
	Waiter *mine = my_waiters();
	for (int i = 0; i < n; i++)
	{
		Waiter *waiter = &mine[i];
		waiter->queue = refs[i].queue;
		waiter->queue_generation = refs[i].generation;
		waiter->procno = my_procno();
		waiter->is_worker = is_worker;
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

/*
 * Remove this process from the line. Returns whether this process must wake another waiter of the
 * line, because it was woken or was the watcher. Called under the queue's lock.
 */
static bool
leave_line(Waiter *waiter)
{
	Queue *queue = waiter->queue;
	/*
	 * When a slot is freed, all waiters are removed from its line. So the state says whether this
	 * waiter is still in a line.
	 */
	bool owes = waiter->state == Waiter::kWoken;
	if (waiter->state == Waiter::kListed)
	{
		dlist_delete(&waiter->in_line);
		queue->waiting--;
	}
	waiter->state = Waiter::kIdle;
	if (is_current(waiter) && queue->watcher == my_procno())
	{
		owes = true;
		queue->watcher = kNobody;
	}
	return owes;
}

void
leave_lines(const Queue *served)
{
	Waiter *mine = my_waiters();
	for (int i = 0; i < joined; i++)
	{
		Waiter *waiter = &mine[i];
		Queue *queue = waiter->queue;
		Database *database = queue->database;
		Wakeups wakeups;
		bool wake_up_scheduler = false;
		with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
			bool current = is_current(waiter);
			bool watched = current && queue->watcher == my_procno();
			bool owes = leave_line(waiter);
			/*
			 * In two cases, wake the next waiter whether or not jobs are left. If this process was
			 * the watcher, another waiter has to become the watcher. If this process was woken, has
			 * taken no job of this queue, and will not look for one now, the job that it was woken
			 * for may be left. In all other cases, pass_on() wakes the next waiter only if jobs are
			 * left.
			 */
			if (!current)
				return;
			wake_up_scheduler = watched || (owes && queue != served) ? wake_one(queue, &wakeups)
																	 : pass_on(queue, &wakeups);
		});
		wakeups.deliver();
		if (wake_up_scheduler)
			wake_scheduler(database);
	}
	joined = 0;
}

void
leave_lines_to_look()
{
	Waiter *mine = my_waiters();
	for (int i = 0; i < joined; i++)
		with_lwlock(mine[i].queue->lock, LW_EXCLUSIVE, [&] { (void) leave_line(&mine[i]); });
	joined = 0;
}

} // namespace pgq
