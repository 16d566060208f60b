/*
 * Finding records that are past their time: their queue does not keep them any longer. Used for
 * rings whose segments are truncated when all their records are past their time
 * (is_truncated_by_time()).
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/* How long each queue keeps its records of one ring, as read at time `now`. */
struct Expiry
{
	TimestampTz now;
	const RingSpec *ring;
	struct Kept
	{
		int32 queue_id;
		int64 time;
		/* how long each queue keeps records, in microseconds, sorted by queue_id */
	} * queues;
	int n;
};

/*
 * Read into palloc'd memory how long each queue keeps its records. now: the wall clock, or 0 if the
 * clock was set lately. Returns NULL if now is 0 or the ring is not truncated by time: then no
 * record counts as past its time. The caller has locked the extension's tables.
 */
const Expiry *read_expiry(RingName ring, TimestampTz now);

/*
 * Return how much longer, in microseconds, the queue keeps the record: 0 or less if the time of the
 * record is over; INT64_MAX if the queue is gone. *age: set to the age of the record in
 * microseconds.
 */
int64 time_left(const Expiry &expiry, HeapTuple tuple, TupleDesc desc, int64 *age);

/* Return whether the record is past its time. False if `expiry` is NULL. */
bool is_past(const Expiry *expiry, HeapTuple tuple, TupleDesc desc);

} // namespace pgq
