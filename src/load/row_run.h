/*
 * The first rows of a scan, those of all segments merged in its order.
 */
#pragma once

#include "load/row_stream.h"

namespace pgq {

struct RowRun
{
	Hint *rows; /* in order */
	int n;
	bool more;	   /* rows are left: */
	Hint left_out; /* the first of them */
};

/* Read at most so many rows. False if not all segments are there: then nothing is known. */
bool read_rows(const OrderScan &scan, int32 queue_id, int most, RowRun *run);
bool read_rows(const DelayedScan &scan, int32 queue_id, int most, RowRun *run);

/* The first rows of a group. */
struct RowsOfGroup
{
	int64 group;
	Hint *rows; /* in order, at least one */
	int n;
	Key next; /* the first key that was left out; +infinity: none was */
};

struct GroupRun
{
	RowsOfGroup *groups; /* in the order of their ids */
	int n;
	bool more; /* groups are left */
};

/* Read the next groups, of each at most so many rows. False as above. */
bool read_groups(const GroupScan &scan, int32 queue_id, int most_groups, int most_rows,
				 GroupRun *run);

} // namespace pgq
