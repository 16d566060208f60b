/*
 * A row run: the first rows of a scan, read from all segments and merged in the order of the scan.
 */
#pragma once

#include "load/row_stream.h"

namespace pgq {

struct RowRun
{
	Hint *rows; /* in the order of the scan */
	int n;
	bool more;	   /* the scan has more rows than `rows` */
	Hint left_out; /* if `more`: the first row that is not in `rows` */
};

/*
 * Read at most `most` rows of the scan into *run. Opens all segments, and leaves them open. Returns
 * false if segments or their indexes are missing; *run then proves nothing about other rows.
 */
bool read_rows(SegmentSet &segments, const OrderScan &scan, int32 queue_id, int most, RowRun *run);
bool read_rows(SegmentSet &segments, const DelayedScan &scan, int32 queue_id, int most,
			   RowRun *run);

/* The first rows of a group. */
struct RowsOfGroup
{
	int64 group;
	Hint *rows; /* in key order, at least one */
	int n;
	/* key of the first row of the group that is not in `rows`; +infinity: there is none, or the scan has one_each */
	Key next;
};

/* The first groups of a GroupScan. */
struct GroupRun
{
	RowsOfGroup *groups; /* in the order of their ids */
	int n;
	bool more; /* the scan has more groups than `groups` */
};

/*
 * Read at most most_groups groups of the scan, and at most most_rows rows of each. Opens segments
 * and returns false as read_rows() does.
 */
bool read_groups(SegmentSet &segments, const GroupScan &scan, int32 queue_id, int most_groups,
				 int most_rows, GroupRun *run);

} // namespace pgq
