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
 * Enqueue a job. find(&ref) finds and locks the queue; it returns false if there is no such queue, and
 * so does this function. Lock all segments in their order (rows/segment_set.h) before the queue if the job
 * has a unique key or parents: the search for them reads all segments. again: the job has finished
 * once before (OnConflict::kAgain).
 */
template <typename Find>
static bool
enqueue_found(Find find, const JobSpec &spec, QueueRef *ref, int64 *id, bool again = false)
{
	/* Read the rules, then lock segments and queue. */
	TimestampTz now = wall_now();
	KeyRules rules = key_rules(spec, now);
	if (again)
		rules.on_conflict = OnConflict::kAgain;
	bool reads_all = rules.key != nullptr || parents_of(spec) != nullptr;
	SegmentSet segments(AccessShareLock);
	if (reads_all)
		(void) segments.open_all();
	bool found = find(ref);
	/* Insert the job, or find the job that has its key. */
	if (found && rules.key != nullptr)
	{
		KeyedRequest request = keyed_request(ref->queue_id, spec, rules, now);
		depend_on_parents(segments, spec, &request.job);
		*id = enqueue_keyed(*ref, segments, &request);
	}
	else if (found)
	{
		NewJob job = job_of(ref->queue_id, spec, now);
		enter_queue(*ref, 1);
		depend_on_parents(segments, spec, &job);
		enqueue_jobs(*ref, &job, 1, id);
	}
	if (reads_all)
		segments.close();
	return found;
}

int64
enqueue_job(const char *queue, const JobSpec &spec)
{
	QueueRef ref;
	int64 id;
	(void) enqueue_found(
		[&](QueueRef *found) {
			*found = queue_for_enqueue(queue);
			return true;
		},
		spec, &ref, &id);
	return id;
}

bool
publish_job(int32 queue_id, const JobSpec &spec, QueueRef *ref, int64 *job_id)
{
	return enqueue_found([&](QueueRef *found) { return queue_for_publish(queue_id, found); }, spec,
						 ref, job_id);
}

bool
enqueue_again(int32 queue_id, const char *queue, const JobSpec &spec, int64 *job_id)
{
	QueueRef ref;
	return enqueue_found(
		[&](QueueRef *found) {
			if (!queue_for_publish(queue_id, found))
				return false;
			require_right(Permission::kEnqueue, queue_id, queue);
			return true;
		},
		spec, &ref, job_id, true);
}

} // namespace pgq
