/*
 * A queue's turn: what is due by time, and what the scheduler has to do for it.
 */
#pragma once

#include "worker/shift.h"

namespace pgq {

struct Turn
{
	int64 next_event = INT64_MAX; /* monotonic */
	bool lost = false;			  /* there are lost leases to be counted */
	bool failing = false;		  /* others were put off, since they could not be counted */
	bool wants_window = false;
	bool wants_timer = false;
	bool wants_count = false; /* nobody knows how many jobs it has */
	bool wants_part = false;  /* ... or will soon not know how many of them wait */
};

/* One turn for each queue. Returns the monotonic time of the next thing to do. */
int64 serve_queues(Shift &shift);

} // namespace pgq
