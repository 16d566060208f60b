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
	Lease *fleeting; /* of the owner: to be given back when that has been changed; or NULL */
	bool by_row; /* this transaction has locked the row of the owner, and another one its lease */
	/* Of kNotYet. Both invalid: for a moment. */
	TransactionId xid;
	VirtualTransactionId vxid;
	bool claiming;	 /* the claim of vxid is in progress: it decides, not its transaction */
	bool locked;	 /* others have locked the row of the owner: it is waited for */
	bool wants_turn; /* it is a holder, and nobody is to join the holders meanwhile */
	bool passes;	 /* another session has the turn: wait until it is free, do not take it */

	/* Of all times that it was asked. */
	int64 turn;		 /* the job at which it has the turn (queue_lock.h), or 0 */
	bool starves;	 /* it has waited for a hold which has kept claims from the job */
	int64 gap_since; /* monotonic: start of the time in which the job is left to claims, or 0 */
};

Meeting find_owner(SegmentSet &segments, OwnerSearch *search);

/* After kNotYet, without the lock of the key. Unlocks the segments. */
void wait_for_decision(SegmentSet &segments, OwnerSearch *search);

/* There is an answer. */
void end_search(OwnerSearch *search);

} // namespace pgq
