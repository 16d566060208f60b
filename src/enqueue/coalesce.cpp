#include "enqueue/coalesce.h"

#include "enqueue/enqueue.h"
#include "enqueue/key_owner.h"
#include "pg/clock.h"
#include "rows/unique_key.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Hold a waiting job that has the key, until this transaction ends. Returns false if there is none,
 * or if it cannot be held without a wait. Takes no lock of the key: a job that another session is
 * inserting need not be found.
 */
static bool
hold_waiting_job(const QueueRef &ref, SegmentSet &segments, const KeyedRequest &request)
{
	OwnerSearch search{};
	search.ref = ref;
	search.key = {request.rules.key, request.hash, ref.queue_id};
	search.now = wall_now();
	search.until_claimed = true;
	search.impatient = true;
	(void) segments.open_all();
	if (find_owner(segments, &search) != OwnerAnswer::kHeld)
		return false;
	note_duplicate(ref);
	return true;
}

/* Return false if certainly no job has any of the keys. */
static bool
may_have_jobs(const QueueRef &ref, SegmentSet &segments, const KeyedRequest *requests, int n)
{
	UniqueKey keys[kKeysAtOnce];
	for (int i = 0; i < n; i++)
		keys[i] = {requests[i].rules.key, requests[i].hash, ref.queue_id};
	return may_have_keys(segments, keys, n);
}

void
enqueue_coalesced(const QueueRef &ref, SegmentSet &segments, const KeyedRequest *requests, int n)
{
	NewJob jobs[kKeysAtOnce];
	int n_jobs = 0;
	bool look = may_have_jobs(ref, segments, requests, n);
	for (int i = 0; i < n; i++)
		if (!look || !hold_waiting_job(ref, segments, requests[i]))
			jobs[n_jobs++] = requests[i].job;
	if (n_jobs == 0)
		return;
	if (requests[0].room == Room::kTakeOrSkip)
		n_jobs = static_cast<int>(enter_queue_or_skip(ref, n_jobs));
	else
		enter_queue(ref, n_jobs);
	if (n_jobs > 0)
		enqueue_jobs(ref, jobs, n_jobs, nullptr);
}

} // namespace pgq
