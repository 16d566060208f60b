/*
 * Copies of the starts that rate limits count, for a queue and its groups (rate_limit.h, group.h).
 * The copies are saved at a clean shutdown and restored after the start, as leases are
 * (load/saved_lease.h).
 *
 * Each copy says how long before the stop the jobs had started. The time for which the server is
 * down does not count, since no clock tells how long that was. So a queue may wait longer than
 * needed, but never starts more jobs than its limit says.
 */
#pragma once

#include "engine/lease_copy.h"

namespace pgq {

enum class StartsOf : int16
{
	kQueue,
	kOthers, /* all groups without an entry together */
	kGroup,
};

struct SavedStarts
{
	int32 queue_id;
	StartsOf of;
	int64 group;
	int64 age; /* microseconds from the start of the jobs to the stop of the server */
	/*
	 * Number of starts. The first entry of each rate has one of two marks instead, and says that no
	 * starts older than its age count. kNoneBefore: all starts in the following entries have
	 * happened. kUnknown: some of the starts in the following entries may only be assumed.
	 */
	int32 n;

	static constexpr int32 kNoneBefore = 0;
	static constexpr int32 kUnknown = -1;
};

/* Return how many entries copy_starts() may need for the queue; 0: the queue has no rate limit. */
int room_for_starts(const QueueRef &ref);

/*
 * Copy the starts of the queue, and the hand-outs of claims in progress, at most `most` entries.
 * Return the number of entries; 0 if there would be more than `most`.
 */
int copy_starts(const QueueRef &ref, SavedStarts *copies, int most, int64 monotonic);

/*
 * Restore an entry for a queue that has just been attached. Entries of each rate are restored from
 * the oldest to the newest. Cannot fail.
 */
void restore_starts(const QueueRef &ref, const SavedStarts &saved, int64 monotonic);

} // namespace pgq
