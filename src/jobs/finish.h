/*
 * Calls of a worker about a job that the worker has claimed: ack, fail, release, assert, progress,
 * extend.
 *
 * A call that ends a lease first pins it until the transaction ends. So the lease does not expire
 * (protocol: used-is-pinned), and no other transaction can end it. Another transaction that needs
 * the lease waits for this one.
 */
#pragma once

#include "engine/lease_table.h"
#include "steps/attempt.h"
#include "steps/in_hand.h"

namespace pgq {

/* Count a call with a stale lease, if the job's queue can be found. */
void note_stale_call(int64 job_id);

/* The state of an ack between pinning the lease and deleting the row. */
struct Ack
{
	int64 job_id;
	int64 token;
	/* false: the token is not current; it may belong to a lease from before the last start */
	bool in_hand;
	EndingLease ending; /* only if in_hand */
};
void take_in_hand(Ack *ack);

/*
 * Pin the leases of these jobs, in the order given. Then lock the segments in which the rows are,
 * according to the leases, in the order that avoids deadlocks. The leases come first, so that none
 * expires during the wait for a lock. Returns n Acks for ack_job().
 */
Ack *take_all_in_hand(SegmentSet &segments, const Datum *job_ids, const Datum *tokens, int n);

/*
 * End the row of an acknowledged job. records: collects the records that the caller writes later.
 * result: jsonb or NULL; stored if the queue keeps finished jobs. Returns false if the lease is
 * stale or the row is gone.
 */
bool ack_job(SegmentSet &segments, Records &records, const Ack &ack, const Datum *result = nullptr);

/*
 * End the attempt as failed. failure.fence is the token of the lease, which may be lost already
 * (lost_attempt.h). intent: kEnd or kEndUncancelled. Returns kGone if the lease is stale or left to
 * a cancel, or the row is gone.
 */
AttemptEnd fail_job(int64 job_id, const Failure &failure, Intent intent = Intent::kEnd);

/*
 * Give the job back without counting the attempt; the next claim may take the job after `delay`
 * (interval). intent: as for fail_job(). Returns false if the lease is stale or left to a cancel, or
 * the row is gone.
 */
bool release_job(int64 job_id, int64 token, Datum delay, Intent intent = Intent::kEnd);

/*
 * Return whether the lease is current and the row exists. If so, both stay until this transaction
 * ends: the lease does not expire, and sessions that ack the job or drop its queue wait.
 */
bool assert_lease(int64 job_id, int64 token);

/*
 * Like assert_lease(), but also store the progress (jsonb) in the row, visible to others after the
 * commit.
 */
bool note_progress(int64 job_id, int64 token, Datum progress);

/*
 * Extend the lease to lease_time microseconds from now (0: the length asked for last), but never
 * shorten the lease. Takes effect at once; a rollback does not undo it. Returns the new end, or 0
 * if the lease is stale or revoked, its max_runtime is used up, or the row is gone.
 */
TimestampTz extend_lease(int64 job_id, int64 token, int64 lease_time);

} // namespace pgq
