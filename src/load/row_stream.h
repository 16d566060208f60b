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

	/* In the order of the window: */
	int32 priority;	   /* of the row that was read last */
	bool one_priority; /* the scan ends with that priority; a scan of all lower ones follows */
	/* In that of groups: the scan ends with the group of `row`; a scan of later groups follows. */
	bool one_group;
};

/* Open a stream of that segment, on an index whose scans here have so many keys. It has no row yet. */
void open_stream(RowStream *stream, SegmentSet &segments, int number, int32 queue_id, Oid index,
				 int keys);
void close_stream(RowStream *stream);

/* Rows that are due, of a queue, of one group of it, or those without a group, by priority and run_at, from a key on. */
struct OrderScan
{
	using Order = ByKey;

	Key start;
	int64 due_line;
	int64 horizon; /* rows that were due when enqueued are looked for up to here */
	int64 group;   /* 0: all */
	/*
	 * Only those without a group. After many rows with a group such a row is returned, too, so that the scan ends: the
	 * caller goes on from there.
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

/* Rows that are due of groups with ids in a range, by group and key. */
struct GroupScan
{
	struct Order
	{
		static bool less(const Hint &a, const Hint &b)
		{
			return a.group != b.group ? a.group < b.group : ByKey::less(a, b);
		}
	};

	int64 from;
	int64 to;
	int64 due_line;
	int64 horizon;

	static IndexName index() { return kByGroup; }
	static int keys() { return 3; }
	void begin(RowStream *stream) const;
	void advance(RowStream *stream) const;
	/* Go on with the first row of a later group than that of the present row. */
	void skip_group(RowStream *stream) const;

private:
	void begin_after(RowStream *stream) const;
	void begin_below(RowStream *stream) const;
};

/* Delayed rows, by run_at, from a key on. */
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
