/*
 * The extension's tables in this database at one moment. A backend looks the tables up once, and
 * remembers them until the relation cache reports a change.
 *
 * A Tables object never changes. So callers may keep it, and pointers into it, until the end of the
 * transaction, but it does not show later changes of the catalog. An SQL function gets its Tables
 * once, at its entry (load/attach.h), and passes it on. Code that has waited for a lock calls
 * look_at_tables() again, since an index or a segment may have changed.
 */
#pragma once

#include "catalog/column.h"
#include "engine/registry.h"

namespace pgq {

struct Segment
{
	int number;
	Oid heap; /* invalid: no segment has that number */

	bool operator==(const Segment &) const = default;
};

/*
 * The existing segments of a ring, in the order of their numbers, for a loop: for (const Segment
 * &segment : ...)
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
	/* invalid: version 0.1 has no such table */
	Oid queue_handler;
	Oid job_checkpoint;
	Oid job_batch;
	Oid batch_note;
	Oid job_dependency;
	Oid job_outcome;
	Oid ring[kRings]; /* partitioned table of each ring */
	/*
	 * the rings have the column batch_id and the columns after it; a database that was updated from
	 * 0.1 may lack them
	 */
	bool has_batches;
	Oid subscription; /* a subscription that brings rows to the segments; invalid: there is no such subscription */
	bool has_segments; /* all rings have segments; an index may be missing: has_whole_segments() */
	bool incomplete; /* some rings have segments, but others have none; then no segment is listed */
	Segment segment[kAllSegments]; /* by number */
	Database *database;			   /* slot of this database; nullptr: the database has no slot */
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

	/*
	 * Return the segment with that number, which the caller has found before. Raises 55000 if the
	 * segment is gone.
	 */
	const Segment &get(int number) const;

	/*
	 * Return the segment for new rows. Another segment may become current before the rows are
	 * written; that does no harm. Raises 55000 if the ring has no segments.
	 */
	const Segment &current(RingName ring) const;
};

/* Return whether t has a slot, and that slot still belongs to this database. */
bool is_attached(const Tables &t);

/*
 * Look up the tables. Cheap if the tables have not changed since the last call. Raises 55000 if the
 * library is not preloaded or is of another version, 42704 if the extension is not installed in
 * this database.
 */
const Tables &look_at_tables();

/*
 * Look up the tables, and return how often this process has read the catalog for that. The number
 * differs after each change of a table or of its indexes.
 */
uint64 count_catalog_reads();

/* Return whether the next look_at_tables() will read the catalog. */
bool tables_may_differ();

/*
 * Like look_at_tables(), but returns nullptr instead of raising an error. Also returns nullptr if
 * the database has no slot.
 */
const Tables *tables_if_attached();

/* Return the owner of a relation, or InvalidOid. */
Oid owner_of(Oid relid);

/* Return the subscription that brings rows to that table, or InvalidOid (subscription.cpp). */
Oid subscription_to(Oid relid);

/*
 * Return a subscription to a ring's table or to a segment, or InvalidOid: a publication can name
 * either. t: the tables, whose `subscription` is not set yet (subscription.cpp).
 */
Oid find_subscription(const Tables &t);

/* Raise error 55000 if segments are missing. */
void require_complete_segments(const Tables &t = look_at_tables());

/* Raise error 55000: segments or their indexes are missing, so jobs cannot be found. */
[[noreturn]] void complain_incomplete();

} // namespace pgq
