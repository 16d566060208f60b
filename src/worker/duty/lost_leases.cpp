/*
 * Duty: count the attempts of a queue's lost leases in the rows, one batch at a time. The duty
 * never waits for the lock of a row: if the row is busy, its lease stays lost and is tried again
 * later. See README.md, "Lost leases".
 */
#include "engine/hold.h"
#include "pg/stop_point.h"
#include "steps/attempt.h"
#include "txn/effects.h"
#include "worker/turn.h"
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
/* Pin the leases that have been lost for longest; this transaction will end them. */
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

/* Count the attempt in the row of the job. The write also sets how the lease ends. */
static void
count(const LostLease &lost)
{
	SegmentSet segments(RowExclusiveLock);
	(void) end_failed_attempt(segments, lost.ending, failure_by(lost.loss, lost.token), false);
	segments.close();
}

/*
 * Count the attempt of each lease. Returns false if memory or disk space is short: the other leases
 * of the batch stay lost, since they would fail for the same reason.
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
	bool full; /* there may be more lost leases */
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
wants_counting(const Turn &turn, bool failing)
{
	/*
	 * The view may still show a failure for an attempt that has ended in another way: run the duty
	 * to clear it.
	 */
	bool cured = failing && !turn.failing;
	return turn.lost || cured;
}

/* Count one batch. Then note the time of success, so that claims know that the queue is served. */
int64
count_lost_leases(const QueueRef &ref, const Turn &turn)
{
	BatchResult result = {.able = true, .full = false};
	if (turn.lost)
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
