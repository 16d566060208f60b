/*
 * Jobs that were not handed out before their expires_at (expires_in). Claims skip them; the
 * scheduler ends them.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * The position of a sweep through the expired jobs of a segment. A job that cannot be ended does
 * not hold up those behind it.
 */
struct Sweep
{
	TimestampTz expires_at = DT_NOBEGIN;
	int64 job_id = 0;
};

/*
 * Lock the next expired jobs of a segment, at most `most`, that were due to expire by `then`. Skips
 * leased and locked jobs. Returns their number; if that is less than `most`, the sweep starts
 * again. The caller has locked the tables.
 */
int lock_overdue(const Segment &segment, TimestampTz then, int most, Sweep *sweep, int64 *ids);

/*
 * End a job that lock_overdue() has locked. Does not wait. Returns false if its queue has no slot,
 * or if the job was claimed or ended meanwhile.
 */
bool expire_job(int64 job_id, TimestampTz then);

} // namespace pgq
