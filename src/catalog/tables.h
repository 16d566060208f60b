/*
 * The extension's tables in this database, as they are at one moment. They are found once, and
 * remembered until the relation cache says that something has changed.
 *
 * What is found is never changed: whoever has got it may use it, and pointers into it, to the end of
 * his transaction, but learns nothing new by it. Those who serve a call get it once, at the door
 * (load/attach.h), and pass it on. Who has waited for a lock since, which may have brought news
 * of an index or a segment, looks again.
 */
#pragma once

#include "catalog/column.h"
#include "engine/registry.h"

namespace pgq {

struct Segment
{
	int number;
	Oid heap;
	Oid index[kIndexes]; /* by IndexName; invalid if its ring has none of that name */
	bool muted;			 /* a trigger of ours is there, but does not fire always */
	bool has_others;	 /* indexes that somebody else has added */

	bool operator==(const Segment &) const = default;
};

struct Tables
{
	Oid owner;
	Oid queue;
	Oid queue_by_name;
	Oid job_id_seq;
	Oid token_mark;
	Oid token_key;
	Oid saved_lease;
	Oid ring[kRings]; /* the tables whose segments follow */
	Oid subscription; /* brings rows to the segments, or invalid */
	int segments;	  /* those of job */
	int all_segments; /* behind them, those of records too */
	bool incomplete;  /* there are segments, but not all of their indexes: then there are 0 */
	Segment segment[kAllSegments]; /* by number */
	Database *database;			   /* this database's slot; NULL if it had none */
	uint32 database_generation;

	bool operator==(const Tables &) const = default;
};

/* Is that slot still this database's? */
bool is_attached(const Tables &t);

/*
 * Look at the tables, which costs nothing if nothing has changed. Error 55000 when not preloaded or
 * of another version, 42704 when the extension is not installed here.
 */
const Tables &look_at_tables();

/* Will the next look find something new, perhaps, and lock them all for it? */
bool tables_may_differ();

/* In load/attach.cpp. */
const Tables &tables();

/* The segments of job as they are known at one moment: tables() can change under a loop that locks something. */
struct JobSegments
{
	int n;
	Segment segment[kMaxSegments]; /* by number */

	const Segment *begin() const { return segment; }
	const Segment *end() const { return segment + n; }
};
JobSegments job_segments();

/* The same without these errors: NULL if anything is missing, the slot included. */
const Tables *tables_if_attached();

/* The subscription that brings rows of that table, or invalid. */
Oid subscription_to(Oid relid);

/* The segment with that number, or NULL. */
const Segment *segment_by_number(int number);

/* Error 55000 while indexes of segments are missing: no job can be looked up then. */
void require_complete_segments();

/* The segment new rows go to; it may be another one in the next moment, which is no fault. */
const Segment &current_segment(RingName ring = kJobRing);

} // namespace pgq
