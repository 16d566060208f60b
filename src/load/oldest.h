/*
 * Since when the job is due that has been due for longest and that nobody has in hand.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * Of what has been committed. False: there is none, or the jobs have too many priorities to look at
 * the first ones of each.
 */
bool find_oldest_ready(const QueueRef &ref, TimestampTz *run_at);

} // namespace pgq
