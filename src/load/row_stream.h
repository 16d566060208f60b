/*
 * The rows of a queue in one segment, in the order of one of its indexes: what a refill merges.
 *
 * A row whose insert has not ended is left out, since its own transaction will file it. A row whose
 * delete has not ended is kept, since that may be undone.
 */
#pragma once

#include "rows/index.h"
#include "rows/job.h"
#include "rows/segment_set.h"

namespace pgq {

struct RowStream
{
	bool has_row; /* false: the stream is at its end */
	Hint row;	  /* if has_row: the current one */

	int32 queue_id;
	uint16 segment;
	bool opened; /* false: the segment has no page, so no scan was opened */
	IndexLookup lookup;
	ScanKeyData from[2]; /* where the scan starts; it refers to them, so a stream must not move */

	/* In the order of the window only: */
	int32 priority;	   /* of the row that was read last */
	bool one_priority; /* the scan ends with that priority; a scan of all lower ones follows */
};

/* Open a stream of that segment, on an index whose scans here have so many keys. It has no row yet. */
void open_stream(RowStream *stream, SegmentSet &segments, int number, int32 queue_id, Oid index,
				 int keys);
void close_stream(RowStream *stream);

/* Rows that are due, by priority and run_at, from a key on. */
struct OrderScan
{
	static constexpr IndexName kIndex = kByOrder;
	static constexpr int kKeys = 3;

	Key start;
	int64 due_line;
	int64 horizon; /* rows that were due when enqueued are looked for up to here */

	void begin(RowStream *stream) const;
	void advance(RowStream *stream) const;

private:
	bool is_due(const Hint &row) const;
};

/* Delayed rows, by run_at, from a key on. */
struct DelayedScan
{
	static constexpr IndexName kIndex = kDelayed;
	static constexpr int kKeys = 2;

	TimerKey start;

	void begin(RowStream *stream) const;
	void advance(RowStream *stream) const;
};

} // namespace pgq
