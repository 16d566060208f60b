#include "topics/publish.h"

#include "core/topic_match.h"
#include "enqueue/enqueue.h"
#include "enqueue/enqueue_job.h"
#include "pg/clock.h"
#include "rows/job_ids.h"
#include "topics/target.h"
#include "topics/topic_header.h"

namespace pgq {

template <typename T>
static T *
allocate_all(int n)
{
	return static_cast<T *>(palloc_extended((n + 1) * sizeof(T), MCXT_ALLOC_HUGE));
}

std::string_view
checked_topic(std::string_view topic)
{
	if (topic.size() > kMaxTopicLength)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("topic must not be longer than %d bytes",
							   static_cast<int>(kMaxTopicLength)),
						errdetail("The topic has %d bytes.", static_cast<int>(topic.size()))));
	return topic;
}

std::string_view
checked_topic(const text *topic)
{
	return checked_topic(
		std::string_view(VARDATA_ANY(topic), static_cast<size_t>(VARSIZE_ANY_EXHDR(topic))));
}

namespace {

/* A publish in progress. */
struct Publishing
{
	Route route;
	JobSpec job;
	PublishedJob *jobs; /* the jobs that were published */
	int n;
	bool skipped; /* a full queue was skipped */
};

} // namespace

/* ---- one queue after the other ---- */

static void
publish_one_by_one(Publishing *publishing)
{
	const Route &route = publishing->route;
	for (int i = 0; i < route.n; i++)
	{
		QueueRef ref;
		int64 id;
		bool found = false;
		CHECK_FOR_INTERRUPTS();
		for_binding(route.bindings[i], [&] {
			found = publish_job(route.bindings[i].queue_id, publishing->job,
								room_by(route.bindings[i]), &ref, &id);
		});
		if (found && id != 0)
			publishing->jobs[publishing->n++] = {name_of_target(ref), id};
		publishing->skipped = publishing->skipped || (found && id == 0);
	}
}

/* ---- all queues together ---- */

/* Lock the queues, and take room in them. Return how many queues get the job. */
static int
enter_queues(Publishing *publishing, QueueRef *refs)
{
	const Route &route = publishing->route;
	int n = 0;
	for (int i = 0; i < route.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for_binding(route.bindings[i], [&] {
			if (!queue_for_publish(route.bindings[i].queue_id, &refs[n]))
				return;
			if (enter_queue_alone(refs[n], room_by(route.bindings[i])))
				n++;
			else
				publishing->skipped = true;
		});
	}
	return n;
}

/*
 * Publish a job that has neither a unique key nor parents. The rows of many queues are written
 * together, which costs less than one row after the other.
 */
static void
publish_together(Publishing *publishing)
{
	TimestampTz now = wall_now();
	(void) key_rules(publishing->job, now);
	NewJob row = job_of(0, publishing->job, now);
	auto *refs = allocate_all<QueueRef>(publishing->route.n);
	int n = enter_queues(publishing, refs);
	int most = Min(n, kInsertBatch);
	auto *rows = allocate_all<NewJob>(most);
	auto *ids = allocate_all<int64>(most);
	for (int begin = 0; begin < n; begin += most)
	{
		int part = Min(most, n - begin);
		draw_job_ids(ids, part);
		for (int i = 0; i < part; i++)
		{
			rows[i] = row;
			rows[i].set(kJobQueueId, Int32GetDatum(refs[begin + i].queue_id));
			rows[i].set(kJobId, Int64GetDatum(ids[i]));
		}
		enqueue_jobs_of_queues(&refs[begin], rows, part, ids);
		for (int i = 0; i < part; i++)
			publishing->jobs[publishing->n++] = {name_of_target(refs[begin + i]), ids[i]};
	}
}

PublishedJob *
publish(const text *topic, const JobSpec &spec, bool must_route, int *n)
{
	/* Find the queues, and prepare the job. */
	std::string_view bytes = checked_topic(topic);
	Publishing publishing = {route_to_publish(bytes), spec, nullptr, 0, false};
	publishing.jobs = allocate_all<PublishedJob>(publishing.route.n);
	set_topic_header(&publishing.job, JsonbPGetDatum(publishing.route.header));
	/* Enqueue it into each queue that still exists. */
	if (unique_key_of(spec) != nullptr || parents_of(spec) != nullptr)
		publish_one_by_one(&publishing);
	else if (publishing.route.n > 0)
		publish_together(&publishing);
	if (publishing.n == 0)
		check_unpublished(publishing.job, wall_now());
	if (publishing.n == 0 && must_route)
		complain_unroutable(bytes, publishing.skipped);
	*n = publishing.n;
	return publishing.jobs;
}

} // namespace pgq
