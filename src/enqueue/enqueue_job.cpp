#include "enqueue/enqueue_job.h"

#include "enqueue/enqueue.h"
#include "enqueue/unique_key.h"
#include "pg/clock.h"
#include "steps/depth.h"

namespace pgq {

/*
 * Enqueue a job with a unique key. Lock all segments in their order (rows/segment_set.h) first: the
 * search for the owner of the key reads all of them.
 */
static int64
enqueue_with_key(const char *queue, const JobSpec &spec, const KeyRules &rules, TimestampTz now)
{
	SegmentSet segments(AccessShareLock);
	(void) segments.open_all();
	QueueRef ref = queue_for_enqueue(queue);
	KeyedRequest request = keyed_request(ref.queue_id, spec, rules, now);
	int64 id = enqueue_keyed(ref, segments, &request);
	segments.close();
	return id;
}

int64
enqueue_job(const char *queue, const JobSpec &spec)
{
	TimestampTz now = wall_now();
	KeyRules rules = key_rules(spec, now);
	if (rules.key != nullptr)
		return enqueue_with_key(queue, spec, rules, now);
	QueueRef ref = queue_for_enqueue(queue);
	NewJob job = job_of(ref.queue_id, spec, now);
	int64 id;
	enter_queue(ref, 1);
	enqueue_jobs(ref, &job, 1, &id);
	return id;
}

} // namespace pgq
