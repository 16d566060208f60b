/*
 * Jobs that were not handed out before their expires_at (expires_in). Claims skip such jobs; the
 * scheduler ends them.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * The position of a sweep through the expired jobs of a segment. The sweep goes on behind a job
 * that cannot be ended.
 */
struct Sweep
{
	TimestampTz expires_at = DT_NOBEGIN;
	int64 job_id = 0;
};

/*
 * Lock the next expired jobs of a segment, at most `most`, whose expires_at is not after `then`.
 * Skips leased and locked jobs. Returns the number of jobs; if that is less than `most`, the next
 * call starts a new sweep. The caller has locked the tables.
 */
int lock_overdue(const Segment &segment, TimestampTz then, int most, Sweep *sweep, int64 *ids);

/*
 * End a job that lock_overdue() has locked. Does not wait. Returns false if the job's queue has no
 * slot, or if the job was claimed or ended since it was locked.
 */
bool expire_job(int64 job_id, TimestampTz then);

} // namespace pgq
