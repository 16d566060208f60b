/* Writes the JSON document of pgq-top --json. */
#include "report.h"

#include "shared/json.h"

namespace top {

using shared::Json;

namespace {

/*
 * version of the format: raised when a member is removed or changes its meaning, not when a member
 * is added
 */
constexpr int64_t kFormat = 1;

void
put_server(Json &json, const Server &server)
{
	json.name("server").begin_object();
	json.name("version").text(server.version);
	json.name("database").text(server.database);
	json.name("role").text(server.role);
	json.name("extension")
		.text_or_null(server.extension.empty() ? std::nullopt : std::optional(server.extension));
	json.name("is_standby").flag(server.is_standby);
	json.end_object();
}

void
put_queue(Json &json, const Queue &queue, const QueueRates &rates)
{
	json.begin_object();
	/* values of queue_status */
	json.name("queue").text(queue.name);
	json.name("paused").flag(queue.paused);
	json.name("ready").number(queue.ready);
	json.name("scheduled").number(queue.scheduled);
	json.name("blocked").number(queue.blocked);
	json.name("leased").number(queue.leased);
	json.name("dead").number(queue.dead);
	json.name("depth").number(queue.depth);
	json.name("oldest_ready_seconds").number(queue.oldest_ready_age);
	json.name("waiting_claims").number(queue.waiting_claims);
	json.name("last_claim_seconds_ago").number(queue.last_claim_age);
	json.name("per_second").begin_object();
	json.name("enqueued").number(rates.enqueued);
	json.name("handed_out").number(rates.handed_out);
	json.name("acked").number(rates.acked);
	json.end_object();
	/* values of queue_stats */
	json.name("stats_since").text_or_null(queue.stats_since);
	json.name("counters").begin_object();
	for (size_t i = 0; i < kCounters.size(); i++)
		json.name(kCounters[i]).number(queue.counters[i]);
	json.end_object();
	json.name("seconds").begin_object();
	for (size_t i = 0; i < kLatencies.size(); i++)
		json.name(kLatencies[i]).number(queue.latencies[i]);
	json.end_object();
	json.end_object();
}

void
put_lease(Json &json, const Lease &lease)
{
	json.begin_object();
	json.name("job_id").number(Count(lease.job_id));
	json.name("queue").text(lease.queue);
	json.name("attempt").number(lease.attempt);
	json.name("worker").text_or_null(lease.worker);
	json.name("pid").number(lease.pid);
	json.name("seconds_since_claim").number(lease.since);
	json.name("seconds_left").number(lease.left);
	json.name("in_transaction").flag(lease.in_transaction);
	json.end_object();
}

void
put_dead_letter(Json &json, const DeadLetter &letter)
{
	json.begin_object();
	json.name("job_id").number(Count(letter.job_id));
	json.name("queue").text_or_null(letter.queue);
	json.name("seconds_since_death").number(letter.died);
	json.name("attempts").number(letter.attempts);
	json.name("reason").text_or_null(letter.reason);
	json.name("error").text_or_null(letter.error);
	json.end_object();
}

void
put_check(Json &json, const Check &check)
{
	json.begin_object();
	json.name("check").text(check.name);
	json.name("status").text(check.status);
	json.name("detail").text_or_null(check.detail);
	json.name("hint").text_or_null(check.hint);
	json.name("seconds_since_check").number(check.checked);
	json.end_object();
}

void
put_handler(Json &json, const Handler &handler)
{
	json.begin_object();
	json.name("queue").text(handler.queue);
	json.name("handler").text_or_null(handler.function);
	json.name("run_as").text_or_null(handler.role);
	json.name("workers").number(handler.workers);
	json.name("running").number(handler.running);
	json.name("state").text_or_null(handler.state);
	json.name("reason").text_or_null(handler.reason);
	json.name("seconds_since").number(handler.since);
	json.name("seconds_to_next_try").number(handler.rest);
	json.name("calls").number(handler.calls);
	json.name("failures").number(handler.failures);
	json.name("last_error").text_or_null(handler.error);
	json.end_object();
}

void
put_batch(Json &json, const Batch &batch)
{
	json.begin_object();
	json.name("batch").number(Count(batch.id));
	json.name("state").text_or_null(batch.state);
	json.name("maker").text_or_null(batch.maker);
	json.name("seconds_since_creation").number(batch.created);
	json.name("seconds_since_close").number(batch.closed);
	json.name("seconds_since_failure").number(batch.failed);
	json.name("seconds_since_finish").number(batch.finished);
	json.name("seconds_to_next_try").number(batch.next_try);
	json.name("last_error").text_or_null(batch.error);
	json.end_object();
}

template <typename Rows, typename Put>
void
put_array(Json &json, const char *name, const Rows &rows, Put put)
{
	json.name(name).begin_array();
	for (const auto &row : rows)
		put(json, row);
	json.end_array();
}

/* Write null if the list is not known. */
template <typename Thing>
void
put_known(Json &json, const char *name, const std::optional<std::vector<Thing>> &things,
		  void (*put)(Json &, const Thing &))
{
	if (things)
		put_array(json, name, *things, put);
	else
		json.name(name).null();
}

void
put_queues(Json &json, const Snapshot &snapshot, const Memory &memory)
{
	if (!snapshot.knows_queues)
	{
		json.name("queues").null();
		return;
	}
	put_array(json, "queues", snapshot.queues, [&](Json &to, const auto &entry) {
		put_queue(to, entry.second, memory.rates_of(entry.first));
	});
}

} // namespace

std::string
document(const Snapshot &snapshot, const Memory &memory)
{
	Json json(shared::Layout::lines);
	json.begin_object();
	json.name("format").number(Count(kFormat));
	json.name("taken_at").text(snapshot.server.taken_at);
	put_server(json, snapshot.server);
	put_queues(json, snapshot, memory);
	put_known(json, "jobs", snapshot.leases, put_lease);
	json.name("more_jobs").flag(snapshot.more_leases);
	put_known(json, "dead_letters", snapshot.dead_letters, put_dead_letter);
	json.name("more_dead_letters").flag(snapshot.more_dead_letters);
	put_known(json, "health", snapshot.checks, put_check);
	put_known(json, "handlers", snapshot.handlers, put_handler);
	put_known(json, "batches", snapshot.batches, put_batch);
	json.name("more_batches").flag(snapshot.more_batches);
	put_array(json, "notes", snapshot.notes,
			  [](Json &to, const std::string &note) { to.text(note); });
	json.name("is_complete").flag(!snapshot.is_incomplete);
	json.end_object();
	return json.document();
}

} // namespace top
