#include "topics/publish.h"

#include "core/topic_match.h"
#include "enqueue/enqueue_job.h"
#include "topics/target.h"
#include "topics/topic_header.h"

namespace pgq {

std::string_view
checked_topic(const text *topic)
{
	std::string_view bytes = {VARDATA_ANY(topic), static_cast<size_t>(VARSIZE_ANY_EXHDR(topic))};
	if (bytes.size() > kMaxTopicLength)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("topic must not be longer than %d bytes",
							   static_cast<int>(kMaxTopicLength)),
						errdetail("The topic has %d bytes.", static_cast<int>(bytes.size()))));
	return bytes;
}

PublishedJob *
publish(const text *topic, const JobSpec &spec, bool must_route, int *n)
{
	/* Find the queues, and prepare the job. */
	std::string_view bytes = checked_topic(topic);
	Binding *targets;
	int n_targets = copy_targets(route_to_publish(bytes), &targets);
	auto *jobs = static_cast<PublishedJob *>(
		palloc_extended((n_targets + 1) * sizeof(PublishedJob), MCXT_ALLOC_HUGE));
	JobSpec job = spec;
	set_topic_header(&job, topic_object(bytes));
	/* Enqueue it into each queue that still exists. */
	bool skipped = false;
	*n = 0;
	for (int i = 0; i < n_targets; i++)
	{
		QueueRef ref;
		int64 id;
		bool found = false;
		for_binding(targets[i], [&] {
			found = publish_job(targets[i].queue_id, job, room_by(targets[i]), &ref, &id);
		});
		if (found && id != 0)
			jobs[(*n)++] = {name_of_target(ref), id};
		skipped = skipped || (found && id == 0);
	}
	if (*n == 0 && must_route)
		complain_unroutable(bytes, skipped);
	return jobs;
}

} // namespace pgq
