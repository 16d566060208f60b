/*
 * Taking a job in hand: the first steps of every verb that knows a job by its id. The steps check
 * the right of the caller, take the lease, and keep it until the transaction ends. So the lease
 * does not expire (protocol: used-is-pinned), no claim hands the job out, and no other transaction
 * ends or changes the job.
 *
 * A waiting job: locate the row, check the right, take the lease, and read the row again under the
 * lease. A leased job: find the lease by the job's id and check the right on its queue; the lease
 * has the place of the row.
 */
#pragma once

#include "engine/lease_table.h"
#include "steps/attempt.h"
#include "steps/waiting.h"

namespace pgq {

/* ---- a waiting job ---- */

enum class JobFound : uint8
{
	/* this transaction has the job's lease, and *row is the version that a write would change */
	kWaiting,
	kLeased,
	kNone,
};

/*
 * Take the lease of the job. At commit the lease ends as `how` says. Then read the row again:
 * another transaction that had the lease before may have changed or ended the job, or moved it to
 * another queue. If the lease was lost, its attempt is counted first. Returns kNone also if the
 * caller has no right to change jobs of the queue.
 */
JobFound find_waiting(SegmentSet &segments, int64 job_id, LeaseEnd how, JobRow *row,
					  TakenLease *taken);

/* Return the EndingLease for a lost lease that this transaction has taken (waiting.h). */
EndingLease ending_of(const TakenLease &taken, const JobRow &row);

/* ---- a leased job ---- */

/*
 * Return whether the caller may ack, fail or extend the job. *queue_id: the queue of the job's
 * lease, on which the right was checked; 0 if there is no lease.
 */
bool may_answer(int64 job_id, int32 *queue_id);

/* Return whether a worker has the lease with that token. Caller holds the queue's lock. */
bool is_handed_out(const Lease *lease, int64 token);

/* What the caller is about to do with the lease. */
enum class Intent : uint8
{
	kAssert, /* keep the lease */
	kEnd,
	kEndUncancelled, /* end it, unless an open transaction cancels the job: leave it to the cancel */
};

/*
 * Pin the lease until this transaction ends, if the token is current. If another transaction uses
 * the lease, first wait until the lease is stale or unused; the deadlock detector sees that wait.
 * Returns false if the lease is stale or left to a cancel, or if the caller has no right to ack or
 * fail jobs of the queue.
 */
bool take_in_hand(int64 job_id, int64 token, Intent intent, LeaseEnd how, EndingLease *ending);

enum class Revoked : uint8
{
	kInHand, /* this transaction ends the lease at commit */
	kWait,	 /* wait for the transaction *other, then look at the job again */
	kAgain,	 /* no worker has the lease any more: look at the job again */
};

/*
 * Revoke the worker's lease, so that pgq_extend() fails from now on even while another transaction
 * uses the lease. If no other transaction uses the lease, end the lease, as `how` says, when this
 * transaction commits. *serial: the number (serial_of()) of the lease that an earlier call for this job has
 * revoked, or 0; set to the number of the present lease.
 */
Revoked revoke(int64 job_id, LeaseEnd how, uint64 *serial, EndingLease *ending,
			   VirtualTransactionId *other);

} // namespace pgq
