/* The run_at of the oldest ready job that no worker has. */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * Find the run_at of the oldest ready job of the queue, among committed rows. Returns false if
 * there is no such job, or if the jobs have too many different priorities to read the first rows of
 * each.
 */
bool find_oldest_ready(const QueueRef &ref, TimestampTz *run_at);

} // namespace pgq
