/* Changing the row of a waiting job whose lease this transaction has. */
#pragma once

#include "rows/write.h"

namespace pgq {

/*
 * Change the row of a waiting job whose lease this transaction has, and file a hint of the new row.
 * Returns false if the row is gone. to: the queue to which the job moves, or NULL.
 */
bool change_waiting(SegmentSet &segments, const JobRow &row, const JobChange &change,
					const QueueRef *to);

/*
 * Return the run_at to store so that the job becomes due at `run_at`, even if the clock was ahead
 * when the job was enqueued.
 */
TimestampTz put_off(const JobRow &row, TimestampTz run_at, TimestampTz now);

} // namespace pgq
