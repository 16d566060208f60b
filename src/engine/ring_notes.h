/*
 * State of the rings of segments and of each segment of a database, besides their rows.
 */
#pragma once

#include "core/ring.h"
#include "pg/pg.h"

#include <type_traits>

namespace pgq {

/*
 * State of one ring. Written by the scheduler, read by all processes without a lock. An old value
 * does no harm.
 */
struct SegmentRing
{
	pg_atomic_uint32 current;	/* segment for new rows; rows in any other segment do no harm */
	pg_atomic_uint32 survivors; /* segment for the rows of drained segments, or kNoSegment */
};

/* State of one segment. Written by the scheduler, read by views. */
struct SegmentNotes
{
	/* Atomics, no lock. */
	/* TimestampTz since which no row of it is live; 0: there may be live rows. */
	pg_atomic_uint64 empty_since;
	/* Counters since the database was loaded. */
	pg_atomic_uint64 truncations;
	pg_atomic_uint64 moved_in;
	pg_atomic_uint64 moved_out;
	/*
	 * Written under the registry lock. Read under that lock; the scheduler reads its own writes
	 * without it.
	 */
	char error[160]; /* error of the last step, or "" */
};

struct RingNotes
{
	SegmentRing rings[kRings];
	SegmentNotes segments[kAllSegments]; /* by segment number */
};
static_assert(std::is_trivially_copyable_v<RingNotes>);

/* init_rings() is called when shared memory is made, reset_rings() when a database is loaded. */
void init_rings(RingNotes *notes);
void reset_rings(RingNotes *notes);

} // namespace pgq
