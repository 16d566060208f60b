/*
 * Finding the owner of a unique key: the youngest job that has it. The caller holds the lock of the
 * key (catalog/queue_lock.h).
 */
#pragma once

#include "enqueue/job_spec.h"
#include "rows/unique_key.h"

namespace pgq {

enum class OwnerAnswer : uint8
{
	kNobody, /* the key is free */
	kHeld,	 /* the owner is a waiting job, and is not handed out before this transaction ends */
	kLeased, /* the owner is in work */
	kOver, /* no job has the key, but its unique_for period is still running (rows/key_period.h) */
	/*
	 * the answer depends on a transaction that has not ended: release the key's lock, wait for that
	 * transaction, and call find_owner() again
	 */
	kNotYet,
};

/* A search for the owner, repeated until there is an answer. */
struct OwnerSearch
{
	QueueRef ref;
	UniqueKey key;
	bool until_claimed;
	/* this transaction will change the job, so no other transaction may hold the job */
	bool alone;
	bool only_ask; /* only look for the owner; do not hold the job */
	/*
	 * never wait, and need no lock of the key: take any waiting job, also after failed attempts, and pass over
	 * jobs about which another transaction decides. Used with until_claimed. There is no kNotYet.
	 */
	bool impatient;
	TimestampTz now;

	/* Results. */
	KeyedJob owner;
	/* lease of the owner, to be given back when the owner has been changed; or NULL */
	Lease *fleeting;
	/* this transaction has locked the owner's row, and another transaction has the owner's lease */
	bool by_row;
	/*
	 * After kNotYet: `xid` or `vxid` is the transaction to wait for. If both are invalid, search
	 * again after a moment.
	 */
	TransactionId xid;
	VirtualTransactionId vxid;
	/* `vxid` has a claim in progress: wait for the claim, not for the whole transaction */
	bool claiming;
	bool locked;	 /* other transactions have locked the owner's row: wait for the row */
	bool wants_turn; /* take the turn at the job before waiting for the holder `vxid` */
	bool passes; /* another session has the turn: wait until the turn is free, without taking it */

	/* State kept while the search is repeated. */
	int64 turn;		 /* the job at which this session has the turn (catalog/queue_lock.h), or 0 */
	bool starves;	 /* holds have kept claims from the job: claims may take the job first */
	int64 gap_since; /* monotonic time since when the job is left to claims, or 0 */
};

OwnerAnswer find_owner(SegmentSet &segments, OwnerSearch *search);

} // namespace pgq
