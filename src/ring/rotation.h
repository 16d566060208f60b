/*
 * The rotation of segments: the space of ended jobs is reclaimed by TRUNCATE, without VACUUM, and
 * also while an old snapshot is open.
 *
 * core/ring_policy.h decides which step a segment needs, and when. A step that is blocked by a lock
 * or a snapshot of another session is left for later, and the ring goes on with the other segments.
 * If no segment is bare the current one grows. The scheduler does all of this, in small
 * transactions, and never waits for another session. Jobs and each kind of records have a ring of
 * their own.
 *
 * README.md in this folder says what other sessions see at each step.
 */
#pragma once

#include "core/ring_policy.h"
#include "engine/shared.h"

namespace pgq {

extern int segment_size; /* kilobytes */

/* Define the settings. Called by _PG_init. */
void rotation_init();

/* The observations of one scheduler. They may be lost at any time. */
struct Rotation
{
	SegmentWatch watches[kAllSegments]; /* by number */
	int64 next_look;
	/* the wall clock, or 0 if it was set lately: then no record is past its time */
	TimestampTz clock;
	int64 bytes_before[kRings]; /* size of the current segment at the last look */
	/* next page of the current segment to sample for rows past their time */
	BlockNumber next_page[kRings];
	/*
	 * The pass over the current segment that counts its dead rows, and the number that the last
	 * pass has found.
	 */
	SegmentPass of_current[kRings];
	int64 dead_before[kRings];
	/* TRUNCATEs with new files since the oldest snapshot was at `horizon`: see size_factor(). */
	int new_files;
	TransactionId horizon;
};

/*
 * Two kinds of work can be due: a look at all rings, and a step with one segment. The caller runs
 * each in a transaction of its own with the tables locked (lock_and_serve()), or skips it if they
 * cannot be locked. begin_look() returns whether a look is due.
 */
bool begin_look(Rotation *rotation, int64 now, TimestampTz clock);
void look_at_rings(Rotation *rotation, Database *database, int64 now);

/* Return the segment whose step is due, or -1. */
int segment_in_turn(const Rotation &rotation, int64 now);

/*
 * Take the step of that segment. May raise, and has done nothing then. The caller catches the error
 * and reports it to end_step().
 */
void take_step(Rotation *rotation, Database *database, int number);

/* tried: take_step() was called. raised: it has raised an error. */
void end_step(Rotation *rotation, Database *database, int number, bool tried, bool raised);

/* Return the monotonic time of the next look or step. */
int64 next_step(const Rotation &rotation);

/* Return whether the last step of some segment has failed. */
bool is_failing(const Rotation &rotation);

} // namespace pgq
