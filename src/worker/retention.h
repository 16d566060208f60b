/*
 * Retention: dead letters are deleted when their queue's keep_dead has passed. What they leave in
 * their segment goes when the segment is truncated: rotation.h.
 */
#pragma once

#include "core/steady_clock.h"
#include "pg/pg.h"

namespace pgq {

/*
 * One step, in a small transaction that waits for nobody. Returns the monotonic time of the next:
 * not before the clock has stood its ground.
 */
int64 apply_retention(const SteadyClock &clock);

} // namespace pgq
