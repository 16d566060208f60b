/* What the passage of time does to the leases of a queue. Called under the queue's lock. */
#pragma once

#include "engine/lease.h"

namespace pgq {

/*
 * Give back PARKED leases whose deadline has passed, at most kHoldMax. Return how many jobs may
 * have become ready.
 */
int unpark_due(Queue *queue, int64 monotonic);

/*
 * Make CLAIMED leases LOST whose deadline has passed; but give jobs back whose calls have not begun
 * (protocol: unbegun-is-uncounted). Move put-off LOST leases whose delay is over to queue->lost, so
 * that their attempts are counted. Handle at most kHoldMax leases, and return how many jobs may
 * have become ready.
 */
int expire_due(Queue *queue, int64 monotonic);

} // namespace pgq
