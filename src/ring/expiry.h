/*
 * Whose time is over: records of a ring whose segments are truncated by time.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/* How long each queue keeps its records of one ring, at one moment. Allocated. */
struct Expiry
{
	TimestampTz now;
	const RingSpec *ring;
	struct Kept
	{
		int32 queue_id;
		int64 time;
	} * queues; /* in the order of their ids */
	int n;
};

/*
 * now: by a clock that has stood its ground, or 0. NULL if the ring's are not truncated by time, or
 * without a clock: then nothing's time is over. The caller has locked the tables.
 */
const Expiry *read_expiry(RingName ring, TimestampTz now);

/* How much longer the record is kept: 0 or less, if its time is over. Without a queue: for ever. *age: how long it has been. */
int64 time_left(const Expiry &expiry, HeapTuple tuple, TupleDesc desc, int64 *age);

/* Is it over? */
bool is_past(const Expiry *expiry, HeapTuple tuple, TupleDesc desc);

} // namespace pgq
