/*
 * The pass over one queue: makes due jobs ready and ends leases whose time is over, and finds out
 * which duties the queue needs.
 */
#pragma once

#include "worker/scheduler_state.h"

namespace pgq {

struct QueuePass
{
	int64 next_event = INT64_MAX; /* monotonic: time of the next pass that the queue needs */
	bool lost = false;			  /* there are lost leases whose attempts can be counted now */
	/* there are lost leases that were put off because counting their attempts has failed */
	bool failing = false;
	bool wants_window = false;
	bool wants_timer = false;
	bool wants_count = false;  /* the number of jobs of the queue is unknown */
	bool wants_worker = false; /* the handler of the queue needs one more worker */
	bool wants_part = false;   /* the scheduled jobs of the next seconds have to be counted */
};

/* Make a pass over each queue. Return the monotonic time at which the next pass is needed. */
int64 serve_queues(SchedulerState &scheduler);

} // namespace pgq
