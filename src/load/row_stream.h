/*
 * Row streams: the rows of a queue in one segment, in the order of an index of the segment. A
 * refill merges the streams of all segments. A stream must stay at its address while it is open.
 *
 * A stream skips a row that an open transaction is inserting, since that transaction will file the
 * row. A stream includes a row that an open transaction is deleting, since the delete may be rolled
 * back.
 */
#pragma once

#include "rows/index.h"
#include "rows/job.h"
#include "rows/segment_set.h"

namespace pgq {

struct RowStream
{
	bool has_row; /* false: the stream is at its end */
	Hint row;	  /* if has_row: the current row */

	int32 queue_id;
	uint16 segment;
	bool opened; /* false: the segment has no page, so no scan was opened */
	IndexLookup lookup;
	ScanKeyData from[2]; /* start of the scan, to which index_rescan() keeps pointers */

	/* The next two fields are used only in the order of the window (OrderScan). */
	int32 priority; /* priority of the row that was read last; at first, of `start` */
	/* the present scan covers only `priority`; a scan of all lower priorities follows */
	bool one_priority;
	/*
	 * Used only in the order of groups (GroupScan): the present scan covers only the group of `row`;
	 * a scan of later groups follows.
	 */
	bool one_group;
};

/*
 * Open a stream of the segment with that number. index: the index to scan; keys: the number of scan
 * keys. The stream has no row until the first call of advance().
 */
void open_stream(RowStream *stream, SegmentSet &segments, int number, int32 queue_id,
				 IndexName index, int keys);
void close_stream(RowStream *stream);

/*
 * A scan of due rows in the order of priority and run_at, from the key `start` on: rows of the
 * whole queue, of one group, or without a group.
 */
struct OrderScan
{
	using Order = ByKey;

	Key start;
	int64 due_line;
	int64 horizon; /* upper bound of the run_at of rows that are not delayed (is_delayed()) */
	int64 group;   /* 0: rows of all groups */
	/*
	 * The scan is for rows without a group. advance() skips a bounded number of rows with a group, and
	 * then returns such a row: the caller ends the scan, and begins the next scan at that row.
	 */
	bool ungrouped;

	IndexName index() const { return group == 0 ? kByOrder : kByGroup; }
	int keys() const { return group == 0 ? 3 : 4; }
	void begin(RowStream *stream) const;
	void advance(RowStream *stream) const;

private:
	int begin_keys(ScanKeyData *keys, const RowStream *stream) const;
	void begin_below(RowStream *stream, int32 priority) const;
	bool is_due(const Hint &row) const;
};

/* A scan of the due rows of groups whose ids are in a range, in the order of group and key. */
struct GroupScan
{
	struct Order
	{
		static bool less(const Hint &a, const Hint &b)
		{
			return a.group != b.group ? a.group < b.group : ByKey::less(a, b);
		}
	};

	int64 from; /* first group */
	int64 to;	/* last group */
	int64 due_line;
	int64 horizon; /* as in OrderScan */
	bool one_each; /* only the first row of each group is wanted */

	static IndexName index() { return kByGroup; }
	static int keys() { return 3; }
	void begin(RowStream *stream) const;
	void advance(RowStream *stream) const;
	/* Go to the first row of the next group after the group of the present row. */
	void skip_group(RowStream *stream) const;

private:
	void begin_after(RowStream *stream) const;
	void begin_below(RowStream *stream) const;
};

/* A scan of delayed rows (is_delayed()) in the order of run_at, from the key `start` on. */
struct DelayedScan
{
	using Order = ByRunAt;

	TimerKey start;

	IndexName index() const { return kDelayed; }
	int keys() const { return 2; }
	void begin(RowStream *stream) const;
	void advance(RowStream *stream) const;
};

} // namespace pgq
