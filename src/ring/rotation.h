/*
 * The rotation of segments: TRUNCATE reclaims the space of ended jobs, without VACUUM, even while
 * an old snapshot is open.
 *
 * core/ring_policy.h decides which step a segment needs, and when. A step that is blocked by a lock
 * or a snapshot of another session is tried again later, and the ring goes on with the other
 * segments. If no segment is bare, the current segment grows. The scheduler takes all steps, in
 * small transactions, and never waits for another session. Jobs and each kind of records have a
 * ring of their own.
 *
 * README.md in this folder describes what other sessions see at each step.
 */
#pragma once

#include "core/ring_policy.h"
#include "engine/shared.h"

namespace pgq {

extern int segment_size; /* size at which a segment is closed, in kilobytes */

/* Define the settings. Called by _PG_init. */
void rotation_init();

/*
 * The observations of one scheduler about segments. The next scheduler begins without observations.
 */
struct Rotation
{
	SegmentWatch watches[kAllSegments]; /* by segment number */
	int64 next_look;
	/* the wall clock, or 0 if the clock was set lately: then no record is past its time */
	TimestampTz clock;
	int64 bytes_before[kRings]; /* bytes of the current segment at the last check */
	/* next page of the current segment to sample for rows past their time */
	BlockNumber next_page[kRings];
	/* the present pass over the current segment; it counts dead rows */
	SegmentPass of_current[kRings];
	/* number of dead rows that the previous pass over the current segment has found */
	int64 dead_before[kRings];
	/*
	 * Number of TRUNCATEs that have given a segment new files (size_factor()). Set to 0 as soon as
	 * every snapshot is newer than the first of these TRUNCATEs; `horizon` is the next xid at that
	 * first TRUNCATE.
	 */
	int new_files;
	TransactionId horizon;
};

/*
 * Two kinds of work can be due: a check of all rings (look_at_rings()), and a step with one segment
 * (take_step()). The caller runs each in a transaction of its own, with the extension's tables
 * locked (lock_and_serve()); if the tables cannot be locked, the caller skips the work.
 * begin_look() returns whether a check is due.
 */
bool begin_look(Rotation *rotation, int64 now, TimestampTz clock);
void look_at_rings(Rotation *rotation, Database *database, int64 now);

/* Return the number of the segment whose step is to be taken now, or -1. */
int segment_in_turn(const Rotation &rotation, int64 now);

/*
 * Take the step of that segment. If the step raises an error, nothing was done. The caller catches
 * the error and reports it to end_step().
 */
void take_step(Rotation *rotation, Database *database, int number);

/*
 * Note the outcome of a step. tried: take_step() was called. raised: take_step() has raised an
 * error.
 */
void end_step(Rotation *rotation, Database *database, int number, bool tried, bool raised);

/* Return the monotonic time of the next check or step. */
int64 next_step(const Rotation &rotation);

/* Return whether the last step of some segment has failed. */
bool is_failing(const Rotation &rotation);

} // namespace pgq
