/*
 * The line of a queue's waiters in shared memory; waiter.h has the rules.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

/* An entry: the place of a process in a queue's line of waiters. */
struct Waiter
{
	enum State : uint8
	{
		kIdle,
		kListed,
		kWoken, /* removed from the line for a job: must take a job, or pass the wake-up on */
	};
	dlist_node in_line; /* protected by the lock of the queue */
	/*
	 * queue, queue_generation, procno and is_worker: only the process to which the entry belongs writes these
	 * fields, while the entry is idle. That process reads them without a lock; other processes read
	 * them under the lock of the queue.
	 */
	Relaxed<Queue *> queue; /* also read without a lock by the view capacity */
	uint32 queue_generation;
	int procno;
	bool is_worker; /* a handler's worker waits, not a claim */
	/*
	 * Protected by the lock of the queue; while the entry is idle, only its process uses it. Also
	 * read without a lock by the view capacity.
	 */
	Relaxed<State> state;
};
static_assert(std::is_trivially_copyable_v<Waiter> && std::is_standard_layout_v<Waiter>);

/* A queue's line of waiters. Protected by the queue's lock. */
struct WaitingLine
{
	dlist_head waiters; /* claims that wait, in the order in which they are served */
	dlist_head workers; /* idle workers of handlers, which are served when no claim waits */
	int waiting;		/* claims and workers */
	int watcher;		/* procno of the watcher (waiter.h), or kNobody */
};

void init_line(WaitingLine *line);

Size waiters_size();
void place_waiters(void *memory);

} // namespace pgq
