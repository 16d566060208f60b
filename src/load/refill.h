/*
 * Refills: read the next rows of a queue from the heap into its window or timer.
 *
 * One process at a time refills a queue's window, and one its timer; whoever
 * wants a job and finds none may be that process, the scheduler does it ahead of
 * need.  An error, a cancel or the death of the process abandons the refill in
 * the abort callback, which puts the cursor back. Meanwhile that process holds a heavyweight
 * lock (queue_lock.h), since it may have to wait for a segment itself: the deadlock detector
 * must see who waits for the refill.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

enum class RefillResult : uint8
{
	kDone,
	kElsewhere, /* another process is at it */
	kNotNeeded, /* also when the queue is gone */
	kNotReady,	/* the segments are not known or not complete */
};

/* wait: for whoever is at it, or waits for that, just now. */
RefillResult refill_window(const QueueRef &ref, bool wait);
RefillResult refill_timer(const QueueRef &ref, bool wait);

/* Are there segments to read? They may just have come. */
bool segments_known();

/* Wait until the refills and probes of the queue that are under way have finished or given up. False: there is none. */
bool wait_for_refills(const QueueRef &ref);

} // namespace pgq
