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

struct NamedRelation;

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

/*
 * Tables and a sequence that a claim and its ack do not use. A session looks up each of them when it
 * uses it for the first time, so that its first call does not read all their rows of pg_class.
 */
enum class RareTable : uint8
{
	kJobIdSeq, /* a sequence */
	kUniqueKey,
	kTokenKey,
	kSavedLease,
	kHeldLock,
	kRun,
	kRateLimit,
	kTimetable,
	/* InvalidOid in version 0.1, which has no such tables, and if the table is missing */
	kQueueHandler,
	kJobCheckpoint,
	kJobBatch,
	kBatchNote,
	kJobDependency,
	kJobOutcome,
	kEnd,
};

struct Tables
{
	Oid schema;
	bool of_own_version; /* the extension has the version of the library, not the one before */
	Oid owner;
	Oid queue;
	Oid token_mark;
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

	/*
	 * The other tables. A table of version 0.1 that is missing raises 55000. These OIDs are those of
	 * the moment of the call.
	 */
	Oid job_id_seq() const { return find(RareTable::kJobIdSeq); }
	Oid unique_key() const { return find(RareTable::kUniqueKey); }
	Oid token_key() const { return find(RareTable::kTokenKey); }
	Oid saved_lease() const { return find(RareTable::kSavedLease); }
	Oid held_lock() const { return find(RareTable::kHeldLock); }
	Oid run() const { return find(RareTable::kRun); }
	Oid rate_limit() const { return find(RareTable::kRateLimit); }
	Oid timetable() const { return find(RareTable::kTimetable); }
	Oid queue_handler() const { return find(RareTable::kQueueHandler); }
	Oid job_checkpoint() const { return find(RareTable::kJobCheckpoint); }
	Oid job_batch() const { return find(RareTable::kJobBatch); }
	Oid batch_note() const { return find(RareTable::kBatchNote); }
	Oid job_dependency() const { return find(RareTable::kJobDependency); }
	Oid job_outcome() const { return find(RareTable::kJobOutcome); }
	Oid find(RareTable table) const;
	/* Raise 55000 if one of them is missing. */
	void require_all() const;

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

/*
 * Return the extension's index of a table that is no ring. The caller has locked the table: from
 * then on the index cannot change. Raises 55000 if the index is missing or differs.
 */
Oid index_of(Relation table, const IndexSpec &spec, bool unique);

/*
 * Add the segments of all rings to t, or none if only some of the rings have segments. named: the
 * relations that have the names of segments, by number; a segment is one of them only if it is a
 * partition of its ring, too. Raises 55000 if a partition has no name of a segment
 * (find_segments.cpp).
 */
void find_segments(Tables *t, Oid schema, const NamedRelation *named);

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
