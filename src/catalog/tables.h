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
	Oid heap;			 /* invalid: there is no segment of that number */
	Oid index[kIndexes]; /* by IndexName; invalid if its ring has none of that name */
	bool muted;			 /* a trigger of ours is there, but does not fire always */
	bool has_others;	 /* indexes that somebody else has added */

	bool operator==(const Segment &) const = default;
};

/* Those that are there, in the order of their numbers: for (const Segment &segment : ...) */
struct Segments
{
	const Segment *first;
	const Segment *last;

	struct Iterator
	{
		const Segment *at;
		const Segment *last;

		const Segment &operator*() const { return *at; }
		bool operator!=(const Iterator &other) const { return at != other.at; }
		Iterator &operator++()
		{
			++at;
			return skip();
		}
		Iterator &skip()
		{
			while (at != last && !OidIsValid(at->heap))
				++at;
			return *this;
		}
	};
	Iterator begin() const { return Iterator{first, last}.skip(); }
	Iterator end() const { return {last, last}; }
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
	Oid unique_key;
	Oid unique_key_by_hash;
	Oid held_lock;
	Oid run;
	Oid rate_limit;
	Oid timetable;
	Oid ring[kRings];  /* the tables whose segments follow */
	Oid subscription;  /* brings rows to the segments, or invalid */
	bool has_segments; /* all that there are, with their indexes; otherwise none is listed: */
	bool incomplete;   /* there are segments, but not all of their indexes */
	Segment segment[kAllSegments]; /* by number */
	Database *database;			   /* this database's slot; NULL if it had none */
	uint32 database_generation;

	bool operator==(const Tables &) const = default;

	Segments segments(RingName ring) const
	{
		return {segment + first_in(ring), segment + first_in(ring) + segments_in(ring)};
	}
	Segments all_segments() const { return {segment, segment + kAllSegments}; }

	/* The segment with that number, or NULL. */
	const Segment *find(int number) const
	{
		bool there = number >= 0 && number < kAllSegments && OidIsValid(segment[number].heap);
		return there ? &segment[number] : nullptr;
	}

	/* The same, when it has been found before: error 55000 if it is not there any more. */
	const Segment &get(int number) const;

	/* The segment new rows go to; it may be another one in the next moment, which is no fault. 55000 if there is none. */
	const Segment &current(RingName ring) const;
};

/* Is that slot still this database's? */
bool is_attached(const Tables &t);

/*
 * Look at the tables, which costs nothing if nothing has changed. Error 55000 when not preloaded or
 * of another version, 42704 when the extension is not installed here.
 */
const Tables &look_at_tables();

/*
 * A segment that is to be written or read, with its columns as expected: its lock may have been waited for, and it altered
 * before. Error 55000 if it is another table by now.
 */
Relation open_segment(const Segment &segment, LOCKMODE mode);

/* Will the next look find something new, perhaps, and lock them all for it? */
bool tables_may_differ();

/* The same without these errors: NULL if anything is missing, the slot included. */
const Tables *tables_if_attached();

/* The subscription that brings rows of that table, or invalid. */
Oid subscription_to(Oid relid);

/* Error 55000 while indexes of segments are missing: no job can be looked up then. */
void require_complete_segments(const Tables &t = look_at_tables());

} // namespace pgq
