/*
 * pgq_bind, pgq_unbind, pgq_publish, pgq_publish_many, pgq_route, pgq_grant_topic, pgq_revoke_topic; and the trigger of
 * pgq_ext.topic_binding and pgq_ext.topic_pattern.
 */
#include "admin/topic_privileges.h"
#include "api/args.h"
#include "api/job_arguments.h"
#include "api/result_rows.h"
#include "api/trigger_data.h"
#include "catalog/queue_row.h"
#include "core/topic_match.h"
#include "enqueue/job_json.h"
#include "topics/bind.h"
#include "topics/publish.h"
#include "topics/route.h"

#include <algorithm>

namespace pgq {

namespace {

enum class PublishedColumn
{
	kQueue,
	kJobId,
	kColumns,
};

enum class RouteColumn
{
	kQueue,
	kPattern,
	kColumns,
};

} // namespace

static constexpr Column published_columns[] = {{"queue", kText}, {"job_id", kInt8}};
static_assert(lengthof(published_columns) == static_cast<int>(PublishedColumn::kColumns));
static constexpr Column route_columns[] = {{"queue", kText}, {"pattern", kText}};
static_assert(lengthof(route_columns) == static_cast<int>(RouteColumn::kColumns));

static TopicRightSet
topic_rights_of_argument(FunctionCallInfo fcinfo, int i)
{
	Datum *names;
	TopicRightSet rights{};
	int n = elements_of(required(fcinfo, i, "rights"), TEXTOID, "rights", &names);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("rights must not be empty"),
				 errhint("Available rights on topics: publish, subscribe.")));
	for (int j = 0; j < n; j++)
		rights.has[static_cast<int>(topic_right_of_name(TextDatumGetCString(names[j])))] = true;
	return rights;
}

static void
change_topic_rights(FunctionCallInfo fcinfo,
					void (*change)(std::string_view pattern, const char *role,
								   const TopicRightSet &rights))
{
	std::string_view pattern = checked_pattern(DatumGetTextPP(required(fcinfo, 0, "pattern")));
	char *role = TextDatumGetCString(required(fcinfo, 1, "role"));
	change(pattern, role, topic_rights_of_argument(fcinfo, 2));
}

static void
put_published_job(void *rows, const PublishedJob &job)
{
	ResultRow<PublishedColumn> row;
	row.set_datum(PublishedColumn::kQueue, PointerGetDatum(job.queue));
	row.set(PublishedColumn::kJobId, job.job_id);
	static_cast<ResultRows *>(rows)->put(row);
}

/* Return the rows of all queues, sorted by id. */
static const QueueRow *
sorted_queue_rows(int *n)
{
	QueueRow *queues = read_queue_rows(look_at_tables(), n);
	std::sort(queues, queues + *n,
			  [](const QueueRow &a, const QueueRow &b) { return a.queue_id < b.queue_id; });
	return queues;
}

/* The number of the argument must_route of pgq_publish. */
static constexpr int kMustRoute = 1 + kEnqueueArguments;

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_bind);
PG_FUNCTION_INFO_V1(pgq_unbind);
PG_FUNCTION_INFO_V1(pgq_publish);
PG_FUNCTION_INFO_V1(pgq_publish_many);
PG_FUNCTION_INFO_V1(pgq_route);
PG_FUNCTION_INFO_V1(pgq_grant_topic);
PG_FUNCTION_INFO_V1(pgq_revoke_topic);
PG_FUNCTION_INFO_V1(pgq_is_pattern);
PG_FUNCTION_INFO_V1(pgq_topic_changed);

PGDLLEXPORT Datum
pgq_bind(PG_FUNCTION_ARGS)
{
	start_write("pgq_bind()");
	text *pattern = DatumGetTextPP(required(fcinfo, 0, "pattern"));
	char *queue = queue_name(required(fcinfo, 1, "queue"));
	bind_queue(pattern, queue,
			   given(fcinfo, 2) ? bind_options(PG_GETARG_JSONB_P(2)) : BindOptions{});
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_unbind(PG_FUNCTION_ARGS)
{
	start_write("pgq_unbind()");
	text *pattern = DatumGetTextPP(required(fcinfo, 0, "pattern"));
	PG_RETURN_BOOL(unbind_queue(pattern, queue_name(required(fcinfo, 1, "queue"))));
}

PGDLLEXPORT Datum
pgq_publish(PG_FUNCTION_ARGS)
{
	start_write("pgq_publish()");
	int n;
	ResultRows rows(fcinfo, "published_job", published_columns);
	text *topic = DatumGetTextPP(required(fcinfo, 0, "topic"));
	bool must_route = DatumGetBool(required(fcinfo, kMustRoute, "must_route"));
	const PublishedJob *jobs =
		publish(topic, job_of_arguments(fcinfo, 1, kEnqueueArguments), must_route, &n);
	for (int i = 0; i < n; i++)
		put_published_job(&rows, jobs[i]);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_publish_many(PG_FUNCTION_ARGS)
{
	start_write("pgq_publish_many()");
	ResultRows rows(fcinfo, "published_job", published_columns);
	publish_many(array_of_jobs(required(fcinfo, 0, "jobs")), put_published_job, &rows);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_route(PG_FUNCTION_ARGS)
{
	require_preloaded();
	ResultRows rows(fcinfo, "route", route_columns);
	text *topic = DatumGetTextPP(required(fcinfo, 0, "topic"));
	Route route = route_topic(checked_topic(topic));
	/* Read the names from the table: the function also works on a standby, where no queue is attached. */
	int n;
	const QueueRow *queues = sorted_queue_rows(&n);
	for (int i = 0; i < route.n; i++)
	{
		const Binding &binding = route.bindings[i];
		const QueueRow *queue = std::lower_bound(
			queues, queues + n, binding.queue_id,
			[](const QueueRow &known, int32 queue_id) { return known.queue_id < queue_id; });
		if (queue == queues + n || queue->queue_id != binding.queue_id)
			continue;
		ResultRow<RouteColumn> row;
		row.set(RouteColumn::kQueue, static_cast<const char *>(queue->name));
		if (may_see(binding.queue_id))
			row.set_datum(RouteColumn::kPattern,
						  PointerGetDatum(cstring_to_text_with_len(
							  binding.pattern.data(), static_cast<int>(binding.pattern.size()))));
		rows.put(row);
	}
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_grant_topic(PG_FUNCTION_ARGS)
{
	start_write("pgq_grant_topic()");
	change_topic_rights(fcinfo, grant_topic_rights);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_revoke_topic(PG_FUNCTION_ARGS)
{
	start_write("pgq_revoke_topic()");
	change_topic_rights(fcinfo, revoke_topic_rights);
	PG_RETURN_VOID();
}

/* For the view health: the row may have been written by SQL. */
PGDLLEXPORT Datum
pgq_is_pattern(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.is_pattern()");
	std::string_view word;
	const text *pattern = DatumGetTextPP(required(fcinfo, 0, "pattern"));
	PG_RETURN_BOOL(check_pattern({VARDATA_ANY(pattern), VARSIZE_ANY_EXHDR(pattern)}, &word) ==
				   PatternFault::kNone);
}

/*
 * Trigger of pgq_ext.topic_binding and pgq_ext.topic_pattern: all sessions read the table again.
 */
PGDLLEXPORT Datum
pgq_topic_changed(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "topic_changed");
	CacheInvalidateRelcache(data->tg_relation);
	return Datum{0};
}
}
