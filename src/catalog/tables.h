/*
 * The extension's tables in this database, found once and remembered until the
 * relation cache says that something changed.
 */
#pragma once

#include "catalog/ring_layout.h"
#include "engine/registry.h"

namespace pgq {

struct Segment
{
	int number;
	Oid heap;
	Oid by_id;	  /* unique (job_id) */
	Oid by_order; /* (queue_id, priority DESC, run_at, job_id); of dead letters (queue_id, died_at) */
	Oid delayed;	 /* (queue_id, run_at, job_id) of rows that are delayed; of dead letters none */
	bool muted;		 /* a trigger of ours is there, but does not fire always */
	bool has_others; /* indexes that somebody else has added */
};

struct Tables
{
	Oid owner;
	Oid queue;
	Oid queue_by_name;
	Oid job;
	Oid job_id_seq;
	Oid dead_job;
	Oid token_mark;
	Oid token_key;
	Oid saved_lease;
	Oid subscription; /* brings rows to the segments, or invalid */
	int segments;	  /* those of job */
	int all_segments; /* behind them, those of dead_job too */
	bool incomplete;  /* there are segments, but not all of their indexes: then there are 0 */
	Segment segment[kAllSegments]; /* by number */
	Database *database;			   /* this database's slot */
	uint32 database_generation;
};

/*
 * The owner of all of them. With more than one, code that one of them has added to a table would run with
 * the rights of another: error 55000.
 */
Oid common_owner();

/*
 * With whose rights a worker may touch the tables; invalid if they are not there. Waits for nobody,
 * and can be out of date in the next moment: lock_tables() looks again.
 */
Oid owner_of_tables();

/*
 * Lock what tables() looks at for this transaction, segments and their tables in that mode,
 * without waiting. False: somebody is in the way, or the extension is gone, or a worker has not the
 * rights of their owner (any more). With these locks
 * held tables() does not wait for anybody either, even if it has to look again.
 */
bool lock_tables(LOCKMODE mode);

/*
 * The same for workers that hand jobs out or change them. False also if these are not ours:
 * with another version, without all segments, or while a subscription brings them (B7).
 */
bool lock_and_serve(LOCKMODE mode);

/* Error 55000 when not preloaded or of another version, 42704 when the extension is not installed here. */
const Tables &tables();

/* Will the next look at tables() find something new, perhaps, and lock them all for it? */
bool tables_may_differ();

/* The segments of job as they are known at one moment: tables() can change under a loop that locks something. */
struct JobSegments
{
	int n;
	Segment segment[kMaxSegments]; /* by number */

	const Segment *begin() const { return segment; }
	const Segment *end() const { return segment + n; }
};
JobSegments job_segments();

/* The same without these errors and without a new slot: NULL if anything is missing. */
const Tables *tables_if_attached();

/*
 * Jobs that a subscription brings are the publisher's (B7): error 55000 naming it. A flag, so cheap. Nobody else may add
 * some either: their ids would be the publisher's next ones. The same for queues.
 */
void refuse_if_subscribed();
void refuse_if_queues_subscribed();

/* Let our triggers fire always again where they do not and nobody is in the way. Returns true if one did not. */
bool restore_triggers();

/* The segment with that number, or NULL. */
const Segment *segment_by_number(int number);

/* Error 55000 while indexes of segments are missing: no job can be looked up then. */
void require_complete_segments();

/* The segment new rows go to; it may be another one in the next moment, which is no fault. */
const Segment &current_segment(RingName ring = kJobRing);

} // namespace pgq
