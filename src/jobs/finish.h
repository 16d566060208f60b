/*
 * Calls of a worker about a job that it has: ack, fail, release, assert, progress, extend.
 *
 * A call that ends a lease takes it first: the lease is pinned until the transaction ends, so that
 * it does not expire (protocol: used-is-pinned), and no other transaction can end it. Another
 * transaction that wants it waits for this one.
 */
#pragma once

#include "engine/lease_table.h"
#include "jobs/attempt.h"

namespace pgq {

/* Count a call with a stale lease, if the job's queue can be found. */
void note_stale_call(int64 job_id);

/* An ack whose row has not been deleted yet. */
struct Ack
{
	int64 job_id;
	int64 token;
	/* the lease was taken; if not it is not current, but may be one from before the last start */
	bool in_hand;
	EndingLease ending; /* only if in_hand */
};
void take_in_hand(Ack *ack);

/*
 * Take the leases of these jobs, in the order given. Then lock the segments where most of their
 * rows are, in the order that avoids deadlocks. Leases come first, so that none expires during the
 * wait for a lock. Returns n Acks for ack_job().
 */
Ack *take_all_in_hand(SegmentSet &segments, const Datum *job_ids, const Datum *tokens, int n);

/*
 * End the job's row successfully. records: collects records, written later by the caller. result:
 * jsonb, kept if the queue keeps finished jobs, or NULL. Returns false if the lease is stale or the
 * row is gone.
 */
bool ack_job(SegmentSet &segments, Records &records, const Ack &ack, const Datum *result = nullptr);

/*
 * End the attempt as failed. failure.fence is the token. The lease may also be a lost one
 * (lost_attempt.h). Returns kGone if the lease is stale or the row is gone.
 */
AttemptEnd fail_job(int64 job_id, const Failure &failure);

/*
 * Give the job back without counting an attempt, to wait for at least `delay` (interval). Returns
 * false if the lease is stale or the row is gone.
 */
bool release_job(int64 job_id, int64 token, Datum delay);

/*
 * Return whether the lease is current and the row exists. If so, both stay until this transaction
 * ends: the lease does not expire, and sessions that want to ack the job or drop its queue wait.
 */
bool assert_lease(int64 job_id, int64 token);

/*
 * As assert_lease(); in addition store the progress (jsonb) in the row, visible from the commit on.
 */
bool note_progress(int64 job_id, int64 token, Datum progress);

/*
 * Extend the lease to lease_time microseconds from now (0: the length asked for last); never
 * shorten it. Takes effect at once, also if this transaction rolls back. Returns the new end, or 0
 * if the lease is stale or revoked, its max_runtime is used up, or the row is gone.
 */
TimestampTz extend_lease(int64 job_id, int64 token, int64 lease_time);

} // namespace pgq
