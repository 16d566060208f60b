/*
 * Copies of the starts that rate limits count, for a queue and its groups (rate_limit.h, group.h):
 * saved at a clean shutdown and restored after the start, as leases are (load/saved_lease.h).
 *
 * The saved value is how long before the stop a job had started. The time for which the server is
 * down does not count, since no clock tells how long that was. So a queue may wait longer than
 * needed, but never starts more than its limit says.
 */
#pragma once

#include "engine/lease_copy.h"

namespace pgq {

enum class StartsOf : int16
{
	kQueue,
	kOthers, /* groups without an entry, together */
	kGroup,
};

struct SavedStarts
{
	int32 queue_id;
	StartsOf of;
	int64 group;
	int64 age; /* microseconds from the starts to the stop */
	/*
	 * Number of starts. kNoneBefore: no older starts count. kUnknown: the same, but the starts that
	 * are counted may not be real ones.
	 */
	int32 n;

	static constexpr int32 kNoneBefore = 0;
	static constexpr int32 kUnknown = -1;
};

/* Return how many entries copy_starts() may need for the queue; 0: the queue has no rate limit. */
int room_for_starts(const QueueRef &ref);

/*
 * Copy the starts, and what is being claimed, at most `most` entries. Return their number; 0 if
 * there would be more.
 */
int copy_starts(const QueueRef &ref, SavedStarts *copies, int most, int64 monotonic);

/*
 * Restore an entry for a queue that has just been attached. Entries of each rate are restored from
 * the oldest to the newest. Cannot fail.
 */
void restore_starts(const QueueRef &ref, const SavedStarts &saved, int64 monotonic);

} // namespace pgq
