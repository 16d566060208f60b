#include "topics/publish.h"

#include "core/topic_match.h"
#include "engine/copies.h"
#include "enqueue/enqueue_job.h"
#include "load/attach.h"
#include "pg/survive.h"
#include "topics/route.h"

namespace pgq {

static constexpr int kUnroutable = MAKE_SQLSTATE('P', 'Q', '0', '0', '3');
static constexpr int kFull = MAKE_SQLSTATE('P', 'Q', '0', '0', '2');

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

/* ---- the job ---- */

/* Return the JSON object {"topic": topic}. */
static Datum
topic_object(std::string_view topic)
{
	StringInfoData json;
	initStringInfo(&json);
	appendStringInfoString(&json, "{\"topic\": ");
	escape_json(&json, pnstrdup(topic.data(), topic.size()));
	appendStringInfoChar(&json, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

/* Return the job with the header `topic`, which replaces a header of that name. */
static JobSpec
with_topic(const JobSpec &spec, std::string_view topic)
{
	JobSpec job = spec;
	Datum headers;
	Datum object = topic_object(topic);
	if (find_attribute(spec, "headers", &headers))
	{
		if (!JB_ROOT_IS_OBJECT(DatumGetJsonbP(headers)))
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("headers of a published job must be a JSON object"),
							errhint("The header \"topic\" is added to this object.")));
		object = DirectFunctionCall2(jsonb_concat, headers, object);
	}
	set_attribute(&job, "headers", object);
	return job;
}

/* ---- the queues ---- */

/* Error context callback: name the pattern that leads to the queue. */
static void
say_pattern(void *binding)
{
	std::string_view pattern = static_cast<Binding *>(binding)->pattern;
	errcontext("publish by the binding of pattern \"%.*s\"", static_cast<int>(pattern.size()),
			   pattern.data());
}

/*
 * Enqueue the job into the queue of the binding. Returns false if the queue is gone, or is full and may
 * be skipped.
 */
static bool
publish_to(Binding *binding, const JobSpec &job, QueueRef *ref, int64 *id)
{
	ErrorContextCallback context = {error_context_stack, say_pattern, binding};
	error_context_stack = &context;
	bool published = false;
	if (!binding->skip_if_full)
		published = publish_job(binding->queue_id, job, ref, id);
	else
		(void) survives_alone([&] { published = publish_job(binding->queue_id, job, ref, id); },
							  [&] {
								  published = false;
								  if (geterrcode() != kFull)
									  PG_RE_THROW();
							  });
	error_context_stack = context.previous;
	return published;
}

/*
 * Copy the route, one binding for each queue. If several patterns lead to a queue, the queue is skipped
 * only if all their bindings say so.
 */
static List *
queues_of(const Route &route)
{
	List *queues = NIL;
	Binding *last = nullptr;
	for (int i = 0; i < route.n; i++)
	{
		const Binding &binding = route.bindings[i];
		if (last == nullptr || last->queue_id != binding.queue_id)
		{
			last = static_cast<Binding *>(palloc(sizeof(Binding)));
			*last = binding;
			queues = lappend(queues, last);
		}
		else if (last->skip_if_full && !binding.skip_if_full)
			*last = binding;
	}
	return queues;
}

[[noreturn]] static void
complain_unroutable(std::string_view topic)
{
	ereport(
		ERROR,
		(errcode(kUnroutable),
		 errmsg("no queue gets jobs of the topic \"%.*s\"", static_cast<int>(topic.size()),
				topic.data()),
		 errhint("Bind a queue to the topic: SELECT pgq_bind('%.*s', 'queue'). Or pass must_route "
				 "=> false.",
				 static_cast<int>(topic.size()), topic.data())));
}

PublishedJob *
publish(const text *topic, const JobSpec &spec, bool must_route, int *n)
{
	std::string_view bytes = checked_topic(topic);
	List *queues = queues_of(route_to_publish(bytes));
	auto *jobs = static_cast<PublishedJob *>(
		palloc_extended((list_length(queues) + 1) * sizeof(PublishedJob), MCXT_ALLOC_HUGE));
	JobSpec job = with_topic(spec, bytes);
	ListCell *cell;
	*n = 0;
	foreach (cell, queues)
	{
		QueueRef ref;
		int64 id;
		if (!publish_to(static_cast<Binding *>(lfirst(cell)), job, &ref, &id))
			continue;
		char name[kQueueNameMax + 1] = "";
		(void) copy_name(ref, name);
		jobs[(*n)++] = {pstrdup(name), id};
	}
	if (*n == 0 && must_route)
		complain_unroutable(bytes);
	return jobs;
}

} // namespace pgq
