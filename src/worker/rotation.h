/*
 * The rotation of segments: storage of finished jobs is reclaimed by TRUNCATE, without
 * VACUUM, and also while an old snapshot is open somewhere.
 *
 * New rows go to the current segment. When it is full the next bare one becomes current,
 * and it is closed. A closed segment in which few rows are left is drained: they are moved to
 * a segment of survivors, so that a job that waits for a month is not copied at each
 * rotation. One without a live row is truncated. What cannot be done now, because somebody
 * has a lock or a snapshot, is left for later, and the ring goes on with the others; if
 * none is bare the current one grows. The scheduler does all of it, one small transaction a
 * call, and never waits for anybody. Jobs and dead letters have a ring of segments each.
 *
 * README.md in rows/ says who may see what when.
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

extern int segment_size; /* kilobytes */

/* Define the GUCs. Called by _PG_init. */
void rotation_init();

/* One step. Returns the monotonic time of the next. */
int64 rotate_segments(Database *database);

} // namespace pgq
