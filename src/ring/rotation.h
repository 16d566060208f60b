/*
 * The rotation of segments: storage of finished jobs is reclaimed by TRUNCATE, without
 * VACUUM, and also while an old snapshot is open somewhere.
 *
 * core/ring_policy.h says what is done when. What cannot be done now, because somebody has a lock
 * or a snapshot, is left for later, and the ring goes on with the others; if no segment is bare the
 * current one grows. The scheduler does all of it, one small transaction a call, and never waits
 * for anybody. Jobs and records have a ring of segments each.
 *
 * README.md in this folder says who may see what when.
 */
#pragma once

#include "core/ring_policy.h"
#include "engine/shared.h"

namespace pgq {

extern int segment_size; /* kilobytes */

/* Define the GUCs. Called by _PG_init. */
void rotation_init();

/* What one scheduler has found out about its rings. It can be lost at any time. */
struct Rotation
{
	SegmentWatch watches[kAllSegments]; /* by number */
	int64 next_look;
	TimestampTz
		clock; /* the wall clock, if it has stood its ground; otherwise 0: no record's time is over */
	int64 bytes_before[kRings]; /* of the current segment, at the last look */
	BlockNumber next_page
		[kRings]; /* of the current segment, where rows whose time is over are looked for */
	/* Of the current segment: a pass for its dead rows, and how many the last one has found. */
	SegmentPass of_current[kRings];
	int64 dead_before[kRings];
	/* TRUNCATEs with new files since the oldest snapshot was this old: see size_factor(). */
	int new_files;
	TransactionId horizon;
};

/*
 * What is due: a look at all rings, and a step with the segment whose turn it is. Each is done in a
 * transaction of its own, with the tables locked (lock_and_serve()); it is left out if they cannot be.
 */
bool begin_look(Rotation *rotation, int64 now, TimestampTz clock);
void look_at_rings(Rotation *rotation, Database *database, int64 now);

/* -1: it is no segment's turn. */
int segment_in_turn(const Rotation &rotation, int64 now);

/* Can raise, and then nothing was done: the caller survives that, and says so to end_step(). */
void take_step(Rotation *rotation, Database *database, int number);

/* tried: take_step() was called; raised: it has raised. */
void end_step(Rotation *rotation, Database *database, int number, bool tried, bool raised);

/* The monotonic time of the next call. */
int64 next_step(const Rotation &rotation);

/* Is there a segment whose last step has failed? */
bool is_failing(const Rotation &rotation);

} // namespace pgq
