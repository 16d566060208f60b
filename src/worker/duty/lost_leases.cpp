/*
 * Duty: count the attempts of a queue's lost leases in the rows, one batch at a time. The duty
 * never waits for the lock of a row: if another transaction has locked the row, the lease stays
 * lost, and the duty tries again later. See README.md, "Lost leases".
 */
#include "engine/hold.h"
#include "pg/server_stop.h"
#include "pg/stop_point.h"
#include "steps/attempt.h"
#include "txn/effects.h"
#include "worker/queue_pass.h"
#include "worker/worker.h"

namespace pgq {

static constexpr int kLostMax = 64;

namespace {

struct LostLease
{
	EndingLease ending;
	int64 token;
	Loss loss;
};

struct Batch
{
	LostLease leases[kLostMax];
	int n;
};

} // namespace
/*
 * Collect leases from the front of the queue's list of lost leases, and pin them: this transaction
 * will end them.
 */
static void
collect(const QueueRef &ref, Batch *batch)
{
	batch->n = 0;
	(void) change_queue(ref, [&](QueueHold &hold) {
		while (batch->n < kLostMax)
		{
			Lease *lease = first_lost(hold.queue());
			if (lease == nullptr)
				break;
			add_reap_effect(ref, lease);
			reap_lease(lease);
			LostLease *lost = &batch->leases[batch->n++];
			*lost = {{ref, hold->options, lease, lease->key.job_id, lease->hint.place, {}},
					 token_of(lease),
					 lease->loss};
			note_run(lease, &lost->ending.run);
		}
	});
}

/*
 * Count the attempt in the row of the job. end_failed_attempt() also sets how the lease ends at
 * commit.
 */
static void
count(const LostLease &lost)
{
	SegmentSet segments(RowExclusiveLock);
	(void) end_failed_attempt(segments, lost.ending, failure_by(lost.loss, lost.token), false);
	segments.close();
}

/*
 * Count the attempt of each lease. Returns false if memory or disk space is short. Then the
 * remaining leases of the batch stay lost, since counting their attempts would fail for the same
 * reason.
 */
static bool
count_each(const Batch &batch)
{
	bool short_of_resources = false;
	for (int i = 0; i < batch.n; i++)
	{
		const LostLease &lost = batch.leases[i];
		if (short_of_resources)
			set_end(lost.ending.lease, LeaseEnd::kStillLost);
		else if (!survives([&] { count(lost); }, &short_of_resources))
			set_end(lost.ending.lease, LeaseEnd::kLostFailing);
	}
	return !short_of_resources;
}

namespace {

struct BatchResult
{
	/* false: tables could not be locked, jobs belong to a publisher, or resources are short */
	bool able;
	bool full; /* there may be more lost leases than the batch could take */
};

} // namespace

static BatchResult
count_batch(const QueueRef &ref)
{
	BatchResult result = {};
	bool enough = true;
	bool served = serving_transaction(RowExclusiveLock, [&] {
		Batch batch;
		reserve_lease_effects(kLostMax);
		collect(ref, &batch);
		/*
		 * If the postmaster is killed, all processes end, and lose their leases by that. No job is
		 * at fault, so count no attempt. A wait for the latch does not notice the end of the
		 * postmaster while the latch is set.
		 */
		if (postmaster_has_ended())
			proc_exit(1);
		stop_point("reap");
		enough = count_each(batch);
		result.full = batch.n == kLostMax;
	});
	if (!enough)
		rest_after_this();
	result.able = served && enough;
	return result;
}

bool
wants_counting(const QueuePass &pass, bool failing)
{
	/*
	 * The view pgq_ext.duty may still show a failure, although the lease that could not be counted
	 * has ended in another way. Then run the duty to clear the failure.
	 */
	bool cured = failing && !pass.failing;
	return pass.lost || cured;
}

/*
 * Count the attempts of one batch of lost leases. Then note the time in Queue::served_at, by which
 * claims see that a scheduler serves the queue.
 */
int64
count_lost_leases(const QueueRef &ref, const QueuePass &pass)
{
	BatchResult result = {.able = true, .full = false};
	if (pass.lost)
		result = count_batch(ref);
	int64 now = monotonic_now();
	bool failing = false;
	(void) change_queue(ref, [&](QueueHold &hold) {
		if (result.able)
			hold->served_at = now;
		failing = hold->failing > 0;
	});
	if (failing)
		keep_failing();
	return result.able && result.full ? now : now + kParkTime;
}

} // namespace pgq
