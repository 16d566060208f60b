/* A queue to which the scheduler can enqueue now, without waiting. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Check that the queue exists, and that the role, whose name is for messages, may enqueue to the queue.
 * Raises an error instead of waiting if the queue is being dropped, or if it has max_depth and its jobs
 * are being counted.
 */
void require_free_queue(const char *name, Oid maker, const char *maker_name);

} // namespace pgq
