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
 * Enqueue a job with a unique key, into a queue that is locked. If the job has parents, a job that has
 * the key already is an error. So such a job needs room in any case, which is taken before the dependencies
 * are inserted. Returns 0 if the job is skipped.
 */
static int64
enqueue_with_key(const QueueRef &ref, SegmentSet &segments, const JobSpec &spec,
				 const KeyRules &rules, TimestampTz now, Room room)
{
	if (parents_of(spec) != nullptr && room == Room::kTakeOrSkip)
	{
		if (!enter_queue_alone(ref, room))
			return 0;
		room = Room::kTaken;
	}
	KeyedRequest request = keyed_request(ref.queue_id, spec, rules, now, room);
	depend_on_parents(segments, spec, &request.job);
	return enqueue_keyed(ref, segments, &request);
}

/* Like enqueue_with_key(), without a unique key. */
static int64
enqueue_without_key(const QueueRef &ref, SegmentSet &segments, const JobSpec &spec, TimestampTz now,
					Room room)
{
	int64 id;
	NewJob job = job_of(ref.queue_id, spec, now);
	if (!enter_queue_alone(ref, room))
		return 0;
	depend_on_parents(segments, spec, &job);
	enqueue_jobs(ref, &job, 1, &id);
	return id;
}

/*
 * Enqueue a job. find(&ref) finds and locks the queue; it returns false if there is no such queue, and
 * so does this function. Lock all segments in their order (rows/segment_set.h) before the queue if the job
 * has a unique key or parents: the search for them reads all segments.
 */
template <typename Find>
static bool
enqueue_found(Find find, const JobSpec &spec, Room room, QueueRef *ref, int64 *id)
{
	TimestampTz now = wall_now();
	KeyRules rules = key_rules(spec, now);
	bool reads_all = rules.key != nullptr || parents_of(spec) != nullptr;
	SegmentSet segments(AccessShareLock);
	if (reads_all)
		(void) segments.open_all();
	bool found = find(ref);
	if (found)
		*id = rules.key != nullptr ? enqueue_with_key(*ref, segments, spec, rules, now, room)
								   : enqueue_without_key(*ref, segments, spec, now, room);
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
		spec, Room::kTake, &ref, &id);
	return id;
}

bool
publish_job(int32 queue_id, const JobSpec &spec, Room room, QueueRef *ref, int64 *job_id)
{
	return enqueue_found([&](QueueRef *found) { return queue_for_publish(queue_id, found); }, spec,
						 room, ref, job_id);
}

} // namespace pgq
