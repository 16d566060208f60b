/*
 * The owner of a unique key: the youngest job that has it. Asked for under the lock of the key (catalog/queue_lock.h).
 */
#pragma once

#include "jobs/job_spec.h"
#include "rows/unique_key.h"

namespace pgq {

enum class Meeting : uint8
{
	kNobody, /* the key is free */
	kHeld,	 /* the owner waits, and is not handed out before this transaction ends */
	kLeased, /* somebody has it in hand */
	kOver,	 /* it has ended, but its time with the key has not: key_period.h */
	kNotYet, /* a transaction decides: wait for it, without the key's lock, and ask again */
};

/* One question, asked again until there is an answer. */
struct OwnerSearch
{
	QueueRef ref;
	UniqueKey key;
	bool until_claimed;
	bool alone;	   /* no other transaction may hold it: it is going to be changed */
	bool only_ask; /* it is not held */
	TimestampTz now;

	/* What has been found. */
	KeyedJob owner;
	/* Of kNotYet. Both invalid: for a moment. */
	TransactionId xid;
	VirtualTransactionId vxid;
	bool claiming; /* the claim of vxid is in progress: it decides, not its transaction */
	bool locked;   /* others have locked the row of the owner: it is waited for */

	/* Of all times that it was asked. */
	int64
		gap_since; /* monotonic; since when it waits for a gap between others' holds; 0: it does not */
};

Meeting find_owner(SegmentSet &segments, OwnerSearch *search);

/* After kNotYet, without the lock of the key. Unlocks the segments. */
void wait_for_decision(SegmentSet &segments, const OwnerSearch &search);

} // namespace pgq
