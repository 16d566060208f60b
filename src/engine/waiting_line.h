/*
 * The line of a queue's waiters as it lies in shared memory; waiter.h says how it goes.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

/* A place in a queue's line of waiters. */
struct Waiter
{
	enum State : uint8
	{
		kIdle,
		kListed,
		kWoken, /* taken off the line for a job; must take one or pass the wake-up on */
	};
	dlist_node in_line; /* under the lock of the queue it is in */
	/* Written by its process, while it is idle; read by that, and under the lock of the queue it is in. */
	Relaxed<Queue *> queue; /* racily by the view capacity */
	uint32 queue_generation;
	int procno;
	/* Under the lock of the queue it is in; an idle one is its process's. Racily by the view capacity. */
	Relaxed<State> state;
};
static_assert(std::is_trivially_copyable_v<Waiter> && std::is_standard_layout_v<Waiter>);

/* Under the queue's lock. */
struct WaitingLine
{
	dlist_head waiters; /* in their order */
	int waiting;
	int watcher; /* my_procno() of the waiter that watches the next timer, or kNobody */
};

void init_line(WaitingLine *line);

Size waiters_size();
void place_waiters(void *memory);

} // namespace pgq
