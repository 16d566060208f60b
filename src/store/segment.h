/*
 * A segment of pgq_ext.job as a whole: how many of its rows live, moving these to
 * another one, truncating it. worker/rotation.* decides when; README.md in this folder
 * says why no job is lost by it.
 */
#pragma once

#include "store/job.h"

namespace pgq {

/* Bytes of all there is: heap, TOAST, indexes. The caller has a lock on it. */
int64 segment_bytes(const Segment &segment);

/* No page: nothing was written to it since it was truncated. The caller has a lock on it. */
bool is_bare(const Segment &segment);

/* A pass over the rows by job id, a piece at a time. */
struct SegmentPass
{
	int64 next_id;
	int64 first_live; /* job id; 0: none was found yet */
	int64 live_bytes; /* of rows that live or may live */
	bool many;		  /* more than a log cleaner should copy: the pass has stopped */
	bool at_end;
};

/* Read on, at most `most` row versions. */
void read_segment(const Segment &segment, SegmentPass *pass, int most);

/*
 * Move live rows from *next_id on to another segment, each under its job's lease, at most
 * `most` of them; *next_id goes on, to 0 at the end. Rows that somebody has in hand stay. Returns how many
 * were moved. The caller's transaction has locked both segments for writing.
 */
int move_rows(const Segment &from, const Segment &to, int64 *next_id, int most);

enum class Truncation : uint8
{
	kDone,
	kLocked,	/* somebody has a lock on it */
	kInhabited, /* there is a row that lives, or may live */
	kTouched,	/* rows have gone since the transaction id given */
};

/*
 * Truncate the segment if no row in it lives and none was written or deleted by a transaction
 * from `since` on. Never waits for a lock.
 */
Truncation truncate_segment(const Segment &segment, TransactionId since);

} // namespace pgq
