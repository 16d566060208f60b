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

} // namespace pgq
