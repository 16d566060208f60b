/*
 * The extension's tables in this database at one moment. A backend looks them up once, and
 * remembers them until the relation cache reports a change.
 *
 * A Tables never changes. So callers may keep it, and pointers into it, until the end of the
 * transaction, but it does not show later changes. A call gets a Tables once, at its entry
 * (load/attach.h), and passes it on. Code that has waited for a lock looks again, since an index or
 * a segment may have changed.
 */
#pragma once

#include "catalog/column.h"
#include "engine/registry.h"

namespace pgq {

struct Segment
{
	int number;
	Oid heap;			 /* invalid: there is no segment of that number */
	Oid index[kIndexes]; /* by IndexName; invalid if the ring has no such index */
	/* a trigger of the extension exists, but is not ENABLE ALWAYS (own_trigger.h) */
	bool muted;
	bool has_others; /* has indexes that users have added */

	bool operator==(const Segment &) const = default;
};

/*
 * The segments of a ring that exist, in the order of their numbers: for (const Segment &segment :
 * ...)
 */
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
	Oid ring[kRings];  /* the partitioned tables of the segments */
	Oid subscription;  /* a subscription that brings rows to the segments; invalid: none does */
	bool has_segments; /* all segments exist with all their indexes */
	/* some segments exist, but not all or not all indexes; then no segment is listed */
	bool incomplete;
	Segment segment[kAllSegments]; /* by number */
	Database *database;			   /* slot of this database; nullptr: none */
	uint32 database_generation;

	bool operator==(const Tables &) const = default;

	Segments segments(RingName ring) const
	{
		return {segment + first_in(ring), segment + first_in(ring) + segments_in(ring)};
	}
	Segments all_segments() const { return {segment, segment + kAllSegments}; }

	/* Return the segment with that number, or nullptr. */
	const Segment *find(int number) const
	{
		bool there = number >= 0 && number < kAllSegments && OidIsValid(segment[number].heap);
		return there ? &segment[number] : nullptr;
	}

	/* Return a segment that was found before. Raises 55000 if it is gone. */
	const Segment &get(int number) const;

	/*
	 * Return the segment for new rows. If another one becomes current later, that does no harm.
	 * Raises 55000 if there is none.
	 */
	const Segment &current(RingName ring) const;
};

/* Return whether the slot in t still belongs to this database. */
bool is_attached(const Tables &t);

/*
 * Look up the tables. Cheap if nothing has changed. Raises 55000 if the library is not preloaded or
 * is of another version, 42704 if the extension is not installed in this database.
 */
const Tables &look_at_tables();

/*
 * Open a segment for reading or writing, and check its columns: it may have been altered during the
 * wait for its lock. Raises 55000 if it is another table by now.
 */
Relation open_segment(const Segment &segment, LOCKMODE mode);

/* Return whether the next look will read the catalog, for which it locks all tables. */
bool tables_may_differ();

/*
 * Like look_at_tables(), but returns nullptr instead of an error, also if the database has no slot.
 */
const Tables *tables_if_attached();

/* Return the owner of a relation, or InvalidOid. */
Oid owner_of(Oid relid);

/* Return the subscription that brings rows to that table, or InvalidOid. */
Oid subscription_to(Oid relid);

/* Raise error 55000 if indexes of segments are missing: without them jobs cannot be found. */
void require_complete_segments(const Tables &t = look_at_tables());

} // namespace pgq
