#include "enqueue/enqueue_job.h"

#include "enqueue/enqueue.h"
#include "enqueue/member.h"
#include "enqueue/unique_key.h"
#include "pg/clock.h"
#include "rows/job_ids.h"
#include "steps/depth.h"

namespace pgq {

/* Draw the id of the job, which has parents, and insert its dependencies. */
static void
depend_on_parents(SegmentSet &segments, const JobSpec &spec, NewJob *job)
{
	const ParentList *parents = parents_of(spec);
	if (parents == nullptr)
		return;
	require_batch_columns();
	int64 id = new_job_id();
	auto *dependencies = static_cast<Dependency *>(palloc(parents->n * sizeof(Dependency)));
	for (int i = 0; i < parents->n; i++)
		dependencies[i] = {parents->names[i].job_id, id, on_parent_failure(spec), nullptr};
	depend(dependencies, parents->n);
	look_at_parents(segments, dependencies, parents->n);
	pfree(dependencies);
	job->set(kJobId, Int64GetDatum(id));
}

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
	depend_on_parents(segments, spec, &request.job);
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
	SegmentSet segments(AccessShareLock);
	if (parents_of(spec) != nullptr)
		(void) segments.open_all();
	QueueRef ref = queue_for_enqueue(queue);
	NewJob job = job_of(ref.queue_id, spec, now);
	int64 id;
	enter_queue(ref, 1);
	depend_on_parents(segments, spec, &job);
	enqueue_jobs(ref, &job, 1, &id);
	if (parents_of(spec) != nullptr)
		segments.close();
	return id;
}

} // namespace pgq
