/*
 * Refills: read the next rows of a queue from the heap into its window or timer.
 *
 * One process at a time refills a queue's window, and one its timer; whoever
 * wants a job and finds none may be that process, the scheduler does it ahead of
 * need.  An error, a cancel or the death of the process abandons the refill in
 * the abort callback, which puts the cursor back.
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

RefillResult refill_window(const QueueRef &ref);
RefillResult refill_timer(const QueueRef &ref);

} // namespace pgq
