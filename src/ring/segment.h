/*
 * A segment of pgq_ext.job as a whole: how many of its rows live, moving these to
 * another one, truncating it. worker/rotation.* decides when; README.md in this folder
 * says why no job is lost by it. Nothing here waits for a lock.
 */
#pragma once

#include "rows/job.h"

namespace pgq {

/* Bytes of heap, TOAST and our indexes. As everywhere here the caller has locked the tables: lock_tables(). */
int64 segment_bytes(const Segment &segment);

/* No page: nothing was written to it since it was truncated. */
bool is_bare(const Segment &segment);

/* Lock a table and all of its indexes, which whoever plans a query on it locks, without waiting. */
bool lock_with_indexes(Oid relid, LOCKMODE mode);

/* Lock it, its TOAST table and their indexes as an enqueue does. */
bool lock_for_writing(const Segment &segment);

/* A pass over the pages, a piece at a time. Rows that move about meanwhile may be missed, or met twice. */
struct SegmentPass
{
	BlockNumber next;
	BlockNumber first_live; /* where the first row was found; InvalidBlockNumber: none yet */
	int64 live_bytes;		/* of rows that live or may live, what is toasted included */
	bool many;				/* more than a log cleaner should copy: the pass has stopped */
	bool at_end;
};

/* Read on, at most so many pages. */
void read_segment(const Segment &segment, SegmentPass *pass, BlockNumber pages);

/* A place among the versions of a segment, in their physical order. */
struct Position
{
	BlockNumber block;
	OffsetNumber offset;
};

/*
 * Move live rows from *next on to another segment, each under its job's lease, at most `most`
 * of them. Rows that somebody has in hand stay. *next goes on; true: it is at the end. *moved:
 * how many were. Both segments are locked for writing.
 */
bool move_rows(const Segment &from, const Segment &to, Position *next, int most, int *moved);

/* Wait for the end of the transaction that has moved rows of the queue (queue->mover), if it is one. */
void wait_for_mover(const QueueRef &ref, VirtualTransactionId mover);

enum class Remains : uint8
{
	kNone,	 /* and writers are locked out until the transaction ends */
	kSome,	 /* there is a row that lives, or may live */
	kUnknown /* somebody has a lock, or waits for one */
};

/*
 * Look at all that is left in the segment. *changed_at: the end of the WAL before that, if a
 * page was changed after the one given. *newest: the newest transaction that has written or
 * deleted any of it.
 */
Remains inspect_segment(const Segment &segment, XLogRecPtr *changed_at, TransactionId *newest);

/* Does any snapshot take a transaction of that age for one that may be running still? */
bool is_seen_by_all(const Segment &segment, TransactionId xid);

/* After inspect_segment() has found none. False: somebody has a lock, or waits for one. */
bool truncate_segment(const Segment &segment);

} // namespace pgq
