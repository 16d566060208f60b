/*
 * Refills: read the next rows of a queue from the table into its window or timer.
 *
 * One process at a time refills a queue's window, and one process its timer. The scheduler refills
 * before a claim needs the rows; a claim that finds no job in memory refills itself. If the refill
 * raises an error, or is cancelled, the abort callback abandons the refill and puts the cursor
 * back. (If the process dies, the server restarts.) During the refill, its process holds a
 * heavyweight lock (catalog/queue_lock.h): the process may have to wait for a lock of a segment, so
 * the deadlock detector must see the processes that wait for the refill.
 */
#pragma once

#include "engine/registry.h"
#include "rows/segment_set.h"

namespace pgq {

enum class RefillResult : uint8
{
	kDone,
	kElsewhere, /* another process is refilling */
	kNotNeeded, /* no refill was wanted, or the queue is gone */
	kNotReady,	/* the list of segments is not known, or segments or indexes are missing */
};

/*
 * Refill the window or the timer, if a refill is wanted. wait: if another process is refilling, or
 * waits to refill, wait for that process.
 */
RefillResult refill_window(const QueueRef &ref, bool wait);
RefillResult refill_timer(const QueueRef &ref, bool wait);

/*
 * Return whether the segments are known, with all their indexes. May close `opened`, the segments
 * that the caller has opened: the catalog is read while no segment is locked.
 */
bool segments_known(SegmentSet *opened = nullptr);

/*
 * Wait until the refills, visits of markers and steps of a lap that are under way in the queue have
 * finished or were abandoned. Returns false if none was under way.
 */
bool wait_for_refills(const QueueRef &ref);

} // namespace pgq
