/*
 * How many jobs of a queue, and of its groups, have started lately (rate_limit.h, group.h): saved at a clean shutdown and
 * restored after the start, as leases are: load/saved_lease.h.
 *
 * Saved is how long before the stop they had started. The time for which the server is down does not count, since no clock
 * tells how long that was: a queue may wait for longer, and never starts more than its limit says.
 */
#pragma once

#include "engine/lease_copy.h"

namespace pgq {

enum class StartsOf : int16
{
	kQueue,
	kOthers, /* groups that are not known */
	kGroup,
};

struct SavedStarts
{
	int32 queue_id;
	StartsOf of;
	int64 group;
	int64 age; /* microseconds */
	int32
		n; /* kNoneBefore: before that none count; kUnknown: the same, but those that do may not have been */

	static constexpr int32 kNoneBefore = 0;
	static constexpr int32 kUnknown = -1;
};

/* How many copy_starts() may have to say of the queue; 0: it has no limits. */
int room_for_starts(const QueueRef &ref);

/* What is being claimed counts, too. At most `most`. Returns how many. */
int copy_starts(const QueueRef &ref, SavedStarts *copies, int most, int64 monotonic);

/* Of a queue that has just been attached; of each rate the oldest come first. Cannot fail. */
void restore_starts(const QueueRef &ref, const SavedStarts &saved, int64 monotonic);

} // namespace pgq
