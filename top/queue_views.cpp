/* The questions about queues, their handlers, and health. */
#include "select.h"

#include "shared/clock.h"

namespace top {

static Queue &
queue_of(Sight &sight, const std::string &name)
{
	Queue &queue = sight.snapshot.queues[name];
	queue.name = name;
	return queue;
}

/*
 * Return the query about queues. The query reads the table pgq_ext.queue, which works even if the
 * library is not preloaded. The rights on a queue are the privileges on a view that is named after
 * the queue's id; DELETE stands for the right admin.
 */
static std::string
queue_sql(Sight &sight)
{
	return select_from(
		sight, "queue",
		{{"queue", "queue", true},
		 {"paused", "paused"},
		 {"queue_id", "EXISTS (SELECT FROM pg_class c WHERE c.relname = 'rights_' || v.queue_id"
					  " AND c.relnamespace = to_regnamespace('pgq_ext')"
					  " AND NOT has_table_privilege(c.oid, 'DELETE'))"}});
}

static void
read_queue(const Answer &answer, Sight &sight)
{
	sight.snapshot.knows_queues = true;
	for (int row = 0; row < answer.size(); row++)
	{
		Queue &queue = queue_of(sight, answer.text_or_nothing(row, "queue"));
		queue.paused = answer.flag(row, "paused");
		queue.is_closed = answer.flag(row, "queue_id").value_or(false);
	}
}

const Question queue_question = {"pgq_ext.queue", queue_sql, read_queue};

static std::string
status_sql(Sight &sight)
{
	return select_from(
		sight, "queue_status",
		{{"queue", "queue", true},
		 {"ready", "ready"},
		 {"scheduled", "scheduled"},
		 {"blocked", "blocked"},
		 {"leased", "leased"},
		 {"dead", "dead"},
		 {"oldest_ready_age", "extract(epoch FROM oldest_ready_age)::float8"},
		 {"waiting_claims", "waiting_claims"},
		 {"last_claim_at", "extract(epoch FROM clock_timestamp() - last_claim_at)::float8"},
		 {"paused", "paused"},
		 {"depth", "depth"}});
}

static void
read_status(const Answer &answer, Sight &sight)
{
	sight.snapshot.knows_queues = true;
	bool is_counted = true;
	for (int row = 0; row < answer.size(); row++)
	{
		Queue &queue = queue_of(sight, answer.text_or_nothing(row, "queue"));
		queue.ready = answer.number(row, "ready");
		queue.scheduled = answer.number(row, "scheduled");
		queue.blocked = answer.number(row, "blocked");
		queue.leased = answer.number(row, "leased");
		queue.dead = answer.number(row, "dead");
		queue.oldest_ready_age = answer.real(row, "oldest_ready_age");
		queue.waiting_claims = answer.number(row, "waiting_claims");
		queue.last_claim_age = answer.real(row, "last_claim_at");
		queue.depth = answer.number(row, "depth");
		if (auto paused = answer.flag(row, "paused"))
			queue.paused = paused;
		is_counted = is_counted && queue.ready;
	}
	if (!is_counted && sight.relations["queue_status"]["ready"])
		note(sight, "the jobs of some queues are not counted yet: the server has been started");
}

const Question status_question = {"pgq_ext.queue_status", status_sql, read_status};

static std::string
stats_sql(Sight &sight)
{
	std::vector<Wanted> wanted = {{"queue", "queue", true}, {"stats_since", "stats_since"}};
	for (const char *counter : kCounters)
		wanted.push_back({counter, counter});
	for (const char *interval : kLatencies)
		wanted.push_back({interval, "extract(epoch FROM " + std::string(interval) + ")::float8"});
	return select_from(sight, "queue_stats", wanted);
}

static void
read_stats(const Answer &answer, Sight &sight)
{
	sight.snapshot.knows_queues = true;
	sight.snapshot.counted_at = shared::steady_now();
	for (int row = 0; row < answer.size(); row++)
	{
		Queue &queue = queue_of(sight, answer.text_or_nothing(row, "queue"));
		queue.stats_since = answer.text(row, "stats_since");
		for (size_t i = 0; i < kCounters.size(); i++)
			queue.counters[i] = answer.number(row, kCounters[i]);
		for (size_t i = 0; i < kLatencies.size(); i++)
			queue.latencies[i] = answer.real(row, kLatencies[i]);
	}
}

const Question stats_question = {"pgq_ext.queue_stats", stats_sql, read_stats};

static std::string
health_sql(Sight &sight)
{
	return select_from(
		sight, "health",
		{{"check", "\"check\"", true},
		 {"status", "status", true},
		 {"detail", "left(detail, 2000)"},
		 {"hint", "left(hint, 2000)"},
		 {"checked_at", "extract(epoch FROM clock_timestamp() - checked_at)::float8"}});
}

static void
read_health(const Answer &answer, Sight &sight)
{
	std::vector<Check> &checks = sight.snapshot.checks.emplace();
	for (int row = 0; row < answer.size(); row++)
		checks.push_back({answer.text_or_nothing(row, "check"),
						  answer.text_or_nothing(row, "status"), answer.text(row, "detail"),
						  answer.text(row, "hint"), answer.real(row, "checked_at")});
}

const Question health_question = {"pgq_ext.health", health_sql, read_health};

/* Return the query about handlers. A version of the extension without the view has no handlers. */
static std::string
handler_sql(Sight &sight)
{
	if (!sight.relations.contains("handler"))
	{
		sight.snapshot.handlers.emplace();
		return "";
	}
	return select_from(
		sight, "handler",
		{{"queue", "queue", true},
		 {"handler", "handler"},
		 {"run_as", "run_as"},
		 {"workers", "workers"},
		 {"running", "running"},
		 {"state", "state"},
		 {"reason", "reason"},
		 {"since", "extract(epoch FROM clock_timestamp() - since)::float8"},
		 {"next_try_at", "extract(epoch FROM next_try_at - clock_timestamp())::float8"},
		 {"calls", "calls"},
		 {"failures", "failures"},
		 {"last_error", "left(last_error, 2000)"}});
}

static void
read_handler(const Answer &answer, Sight &sight)
{
	std::vector<Handler> &handlers = sight.snapshot.handlers.emplace();
	for (int row = 0; row < answer.size(); row++)
		handlers.push_back({.queue = answer.text_or_nothing(row, "queue"),
							.state = answer.text(row, "state"),
							.function = answer.text(row, "handler"),
							.role = answer.text(row, "run_as"),
							.workers = answer.number(row, "workers"),
							.running = answer.number(row, "running"),
							.calls = answer.number(row, "calls"),
							.failures = answer.number(row, "failures"),
							.reason = answer.text(row, "reason"),
							.error = answer.text(row, "last_error"),
							.since = answer.real(row, "since"),
							.rest = answer.real(row, "next_try_at")});
}

const Question handler_question = {"pgq_ext.handler", handler_sql, read_handler};

} // namespace top
