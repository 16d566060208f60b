/*
 * What is known of rings of segments and of each segment, beside their rows: of one database.
 */
#pragma once

#include "core/ring.h"
#include "pg/pg.h"

#include <type_traits>

namespace pgq {

/* The segments of one table. Written by the scheduler, read by everybody, without a lock: nothing depends on how new it is. */
struct SegmentRing
{
	pg_atomic_uint32 current;	/* where new rows go, mostly: any other is as good */
	pg_atomic_uint32 survivors; /* where rows of drained segments go, or kNoSegment */
};

/* Written by the scheduler, read by views. */
struct SegmentNotes
{
	/* Without a lock. */
	pg_atomic_uint64 empty_since; /* TimestampTz; 0: there may be rows in it that somebody wants */
	/* Since the database was loaded: */
	pg_atomic_uint64 truncations;
	pg_atomic_uint64 moved_in;
	pg_atomic_uint64 moved_out;
	/* Written under the registry lock; read under it, but by the scheduler itself. */
	char error[160]; /* of the last step, if it has raised */
};

struct RingNotes
{
	SegmentRing rings[kRings];
	SegmentNotes segments[kAllSegments]; /* by number */
};
static_assert(std::is_trivially_copyable_v<RingNotes>);

/* When shared memory is made; when a database is loaded. */
void init_rings(RingNotes *notes);
void reset_rings(RingNotes *notes);

} // namespace pgq
