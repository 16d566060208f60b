#include "topics/publish.h"

#include "core/topic_match.h"
#include "enqueue/enqueue_job.h"
#include "pg/clock.h"
#include "topics/target.h"
#include "topics/topic_header.h"

namespace pgq {

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

PublishedJob *
publish(const text *topic, const JobSpec &spec, bool must_route, int *n)
{
	/* Find the queues, and prepare the job. */
	std::string_view bytes = checked_topic(topic);
	Targets targets = copy_targets(route_to_publish(bytes));
	auto *jobs = static_cast<PublishedJob *>(
		palloc_extended((targets.n + 1) * sizeof(PublishedJob), MCXT_ALLOC_HUGE));
	JobSpec job = spec;
	set_topic_header(&job, topic_object(bytes));
	/* Enqueue it into each queue that still exists. */
	bool skipped = false;
	*n = 0;
	for (int i = 0; i < targets.n; i++)
	{
		QueueRef ref;
		int64 id;
		bool found = false;
		for_binding(targets.bindings[i], [&] {
			found = publish_job(targets.bindings[i].queue_id, job, room_by(targets.bindings[i]),
								&ref, &id);
		});
		if (found && id != 0)
			jobs[(*n)++] = {name_of_target(ref), id};
		skipped = skipped || (found && id == 0);
	}
	if (*n == 0)
		check_unpublished(job, wall_now());
	if (*n == 0 && must_route)
		complain_unroutable(bytes, skipped);
	return jobs;
}

} // namespace pgq
