/*
 * State of the rings of segments and of each segment of a database, besides their rows.
 */
#pragma once

#include "core/ring.h"
#include "pg/pg.h"

#include <type_traits>

namespace pgq {

/*
 * State of a ring. Written by the scheduler, read by all processes without a lock. An outdated
 * value does no harm.
 */
struct SegmentRing
{
	pg_atomic_uint32 current; /* segment for new rows; a new row in another segment does no harm */
	/* number of the segment of survivors, or kNoSegment */
	pg_atomic_uint32 survivors;
};

/* State of a segment. Written by the scheduler, read by views. */
struct SegmentStatus
{
	/* Atomics, no lock. */
	/* TimestampTz since when the segment has no live row; 0: the segment may have live rows. */
	pg_atomic_uint64 empty_since;
	/* Counters since the database was loaded. */
	pg_atomic_uint64 truncations;
	pg_atomic_uint64 moved_in;
	pg_atomic_uint64 moved_out;
	/*
	 * Written under the registry lock. Read under that lock, or by the scheduler, which alone
	 * writes it.
	 */
	char error[160]; /* error of the last step of rotation for the segment, or "" */
};

struct RingStatus
{
	SegmentRing rings[kRings];
	SegmentStatus segments[kAllSegments]; /* indexed by segment number */
};
static_assert(std::is_trivially_copyable_v<RingStatus>);

/*
 * Called when shared memory is created (init_rings()), or when a database is loaded
 * (reset_rings()).
 */
void init_rings(RingStatus *notes);
void reset_rings(RingStatus *notes);

} // namespace pgq
