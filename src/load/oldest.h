/*
 * Finding the run_at of the oldest ready job of a queue.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * Find the run_at of the oldest ready job of the queue, among committed rows. Returns false if no
 * job is ready, or if the jobs have so many different priorities that reading the first rows of
 * each priority would take too long.
 */
bool find_oldest_ready(const QueueRef &ref, TimestampTz *run_at);

} // namespace pgq
