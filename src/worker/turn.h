/* A pass over one queue: finds what is due, and what the scheduler has to do for the queue. */
#pragma once

#include "worker/shift.h"

namespace pgq {

struct Turn
{
	int64 next_event = INT64_MAX; /* monotonic: when something becomes due next */
	bool lost = false;			  /* there are lost leases to count */
	/* there are other lost leases, put off because counting them has failed */
	bool failing = false;
	bool wants_window = false;
	bool wants_timer = false;
	bool wants_count = false; /* the number of jobs is unknown */
	bool wants_part = false;  /* the number of scheduled jobs will soon be unknown */
};

/* Make a pass over each queue. Return the monotonic time of the next thing to do. */
int64 serve_queues(Shift &shift);

} // namespace pgq
