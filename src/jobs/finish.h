/*
 * What a worker says of a job it has: it is done, it failed, it takes longer.
 *
 * Whoever ends a lease takes it in hand first: it is pinned until this transaction ends, so that
 * time cannot end it (protocol: used-is-pinned), and no other transaction can. One that wants it too
 * waits for this one.
 */
#pragma once

#include "engine/lease_table.h"
#include "jobs/attempt.h"

namespace pgq {

/* A verb is going to say that the lease is stale: counted, if anybody knows the job's queue. */
void note_stale_call(int64 job_id);

/* An acknowledgement on its way. */
struct Ack
{
	int64 job_id;
	int64 token;
	bool in_hand; /* otherwise the lease is not current; it may be from before the last start */
	EndingLease ending; /* of one in hand */
};
void take_in_hand(Ack *ack);

/*
 * Take the leases of these jobs in hand, in the order given; then lock the segments where most of their rows are, in the
 * order that avoids deadlocks. Leases come first, so that time ends none during the wait for a lock. Returns n Acks, for
 * ack_job().
 */
Ack *take_all_in_hand(SegmentSet &segments, const Datum *job_ids, const Datum *tokens, int n);

/*
 * The job is done: its row ends. records: to be written with those of other jobs. result: jsonb, to be kept with it
 * where it is kept, or NULL. False: the lease is stale, or the row is gone.
 */
bool ack_job(SegmentSet &segments, Records &records, const Ack &ack, const Datum *result = nullptr);

/* The attempt failed; failure.fence is the token. A lease that was lost may do, too (lost_attempt.h). kGone: the lease is stale, or the row is gone. */
AttemptEnd fail_job(int64 job_id, const Failure &failure);

/* The job was not done, and that is no failure: it waits as before, for delay (interval) at least. False: the lease is stale, or the row is gone. */
bool release_job(int64 job_id, int64 token, Datum delay);

/*
 * Is the lease current, and the row there? Then it stays so to the end of this transaction: time does
 * not end it, who wants to answer for the job or drops its queue waits.
 */
bool assert_lease(int64 job_id, int64 token);

/* As assert_lease(), and the row says how far the work has come, from the commit on. */
bool note_progress(int64 job_id, int64 token, Datum progress);

/*
 * Let the lease end lease_time (0: the length last asked for) from now, or later if it did, whatever becomes of this
 * transaction. Return its end; 0: it is stale, its max_runtime is used up, or the row is gone.
 */
TimestampTz extend_lease(int64 job_id, int64 token, int64 lease_time);

} // namespace pgq
