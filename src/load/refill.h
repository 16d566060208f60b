/*
 * Refills: read the next rows of a queue from the table into its window or timer.
 *
 * One process at a time refills a queue's window, and one its timer. It may be a claim that finds
 * no job in memory; the scheduler refills before that is needed. If the refill raises an error, or
 * is cancelled, the abort callback abandons it and puts the cursor back. (If the process dies the
 * server restarts.) The process holds a heavyweight lock (catalog/queue_lock.h) during the refill:
 * it may have to wait for a lock of a segment itself, so the deadlock detector must see the
 * processes that wait for it.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

enum class RefillResult : uint8
{
	kDone,
	kElsewhere, /* another process is refilling */
	kNotNeeded, /* no refill was wanted, or the queue is gone */
	kNotReady,	/* the segments are not known or not complete */
};

/*
 * Refill the window or the timer, if that is wanted. wait: wait for another process that refills,
 * or waits to do so.
 */
RefillResult refill_window(const QueueRef &ref, bool wait);
RefillResult refill_timer(const QueueRef &ref, bool wait);

/* Return whether the segments are known; they may have been created a moment ago. */
bool segments_known();

/*
 * Wait until the refills and probes of the queue that are under way have finished or were
 * abandoned. Returns false if there was none.
 */
bool wait_for_refills(const QueueRef &ref);

} // namespace pgq
