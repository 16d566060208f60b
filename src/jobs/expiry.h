/*
 * Jobs whose time is over before somebody has had them (expires_in). A claim leaves them where they are; the
 * scheduler ends them.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/* How far a sweep through a segment's jobs that are overdue has come. Those that cannot be ended are in nobody's way. */
struct Sweep
{
	TimestampTz expires_at = DT_NOBEGIN;
	int64 job_id = 0;
};

/*
 * Lock the next ones of a segment, at most that many, whose time was over by then, and that nobody has in hand or has
 * locked. Returns how many; after fewer the sweep begins anew. The caller has locked the tables.
 */
int lock_overdue(const Segment &segment, TimestampTz then, int most, Sweep *sweep, int64 *ids);

/*
 * End one that has been locked. Waits for nobody. False: it is of a queue that is not attached, or somebody has
 * just taken it, or ended it.
 */
bool expire_job(int64 job_id, TimestampTz then);

} // namespace pgq
