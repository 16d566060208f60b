/* The overview, the curves, and the page of a queue. */
#include "api.h"

#include <cmath>

namespace web {

static void
write_health(Json &json, const Call &call, Notes &notes)
{
	write_list(
		json, call, notes, "health", "health",
		"ORDER BY CASE v.status WHEN 'fail' THEN 0 WHEN 'warn' THEN 1 ELSE 2 END, v.\"check\"");
}

/* The columns of the totals, for the subquery s of all queues. */
static constexpr const char *kTotals =
	"SELECT count(*) AS queues, sum(ready)::bigint AS ready, sum(scheduled)::bigint AS scheduled,"
	" sum(blocked)::bigint AS blocked, sum(leased)::bigint AS leased, sum(dead)::bigint AS dead,"
	" count(*) FILTER (WHERE paused) AS paused FROM s";
static constexpr int kTotalColumns = 7;

static void
write_queue_rates(Json &json, const Call &call, const Value &queue)
{
	std::array<double, 3> rates = call.history.rates(queue.value_or(""));
	json.name("enqueued_rate").number(rates[0]);
	json.name("acked_rate").number(rates[1]);
	json.name("failed_rate").number(rates[2]);
}

/* Return the ORDER BY of the overview: by name, or by a number, largest first. */
static std::string
queue_order(const std::string &sort)
{
	if (sort.empty() || sort == "queue")
		return "ORDER BY v.queue";
	for (const char *column :
		 {"ready", "scheduled", "blocked", "leased", "dead", "oldest_ready_age"})
		if (sort == column)
			return "ORDER BY v." + sort + " DESC NULLS LAST, v.queue";
	throw Failure{
		400, "argument",
		"sort must be queue, ready, scheduled, blocked, leased, dead or oldest_ready_age"};
}

/*
 * Write the totals and the rows of the queues. One statement reads the view once for both, since
 * that takes most of the time if there are many queues.
 */
static void
write_queues(Json &json, const Call &call, Notes &notes)
{
	const Catalog &catalog = call.use.catalog;
	int limit = static_cast<int>(call.number("limit", 200, 1, 10000));
	std::string order = queue_order(call.text("sort"));
	std::string list = catalog.list("queue_status", "v", notes);
	bool has_totals = catalog.can_read(
		"queue_status", {"queue", "ready", "scheduled", "blocked", "leased", "dead", "paused"});
	if (!has_totals || list.empty())
	{
		notes.insert("role " + catalog.role + " may not read all of pgq_ext.queue_status");
		json.name("totals").null().name("queues").begin_array().end_array();
		json.name("more").flag(false);
		return;
	}
	Rows rows =
		call.read("WITH s AS MATERIALIZED (SELECT " + catalog.readable("queue_status") +
					  " FROM pgq_ext.queue_status), t AS (" + kTotals + ") SELECT t.*, " + list +
					  " FROM t LEFT JOIN (SELECT v.* FROM s v"
					  " WHERE strpos(lower(v.queue), lower($1)) > 0 " +
					  order + limit_of(limit) + ") v ON true " + order,
				  {call.text("find")});
	/* The totals are in each row; without any queue there is one row. */
	json.name("totals").begin_object();
	write_members(json, rows, 0, 0, kTotalColumns - 1);
	json.end_object().name("queues").begin_array();
	int name_column = kTotalColumns;
	for (int row = 0; row < rows.size() && row < limit && rows.value(row, name_column); row++)
	{
		json.begin_object();
		write_members(json, rows, row, kTotalColumns);
		write_queue_rates(json, call, rows.value(row, name_column));
		json.end_object();
	}
	json.end_array().name("more").flag(rows.size() > limit);
}

/*
 * The checks of health read more than the numbers of the queues, so a page with many queues asks for
 * them by a request of their own.
 */
std::string
overview(const Call &call)
{
	Json json;
	Notes notes;
	json.begin_object();
	if (call.text("health") != "0")
		write_health(json, call, notes);
	write_queues(json, call, notes);
	write_notes(json, notes);
	json.end_object();
	return json.take();
}

std::string
health_page(const Call &call)
{
	Json json;
	Notes notes;
	json.begin_object();
	write_health(json, call, notes);
	write_notes(json, notes);
	json.end_object();
	return json.take();
}

std::string
history_of(const Call &call)
{
	Json json;
	std::string queue = call.text("queue");
	call.history.write(json, queue.empty() ? "*" : queue);
	return json.take();
}

/* Write a row of a relation as an object, or null. */
static void
write_one(Json &json, const Call &call, Notes &notes, const std::string &member,
		  const std::string &relation)
{
	std::string list =
		call.use.catalog.list(relation, "v", notes, {}, hidden_columns(call.options));
	json.name(member);
	if (list.empty())
	{
		json.null();
		return;
	}
	Rows rows =
		call.read("SELECT " + list + " FROM pgq_ext." + relation + " v WHERE v.queue = $1 LIMIT 1",
				  {call.text("name")});
	if (rows.size() == 0)
	{
		json.null();
		return;
	}
	json.begin_object();
	write_members(json, rows, 0);
	json.end_object();
}

/* Write the groups with the most jobs in work, and what the first jobs of the queue wait for. */
static void
write_waiting(Json &json, const Call &call, Notes &notes, const std::string &id)
{
	const Catalog &catalog = call.use.catalog;
	/* The groups with the most jobs in work. */
	json.name("groups");
	if (catalog.can_read("lease", {"queue", "group_key"}))
		write_rows(
			json,
			call.read(
				"SELECT left(group_key, 255) AS group_key, count(*) AS leased FROM pgq_ext.lease"
				" WHERE queue = $1 AND group_key IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT "
				"50",
				{call.text("name")}),
			50);
	else
		json.begin_array().end_array();
	/* What the first jobs wait for. */
	json.name("waits_for");
	if (!catalog.can_read("job", {"job_id", "queue_id", "priority", "run_at"}) ||
		!catalog.can_read("job_status", {"job_id", "waits_for"}))
	{
		notes.insert("role " + catalog.role +
					 " may not read the columns of pgq_ext.job that show what jobs wait for");
		json.begin_array().end_array();
		return;
	}
	write_rows(
		json,
		call.read(
			"SELECT waits_for, count(*) AS jobs FROM pgq_ext.job_status WHERE job_id = ANY (ARRAY("
			"SELECT job_id FROM pgq_ext.job WHERE queue_id = $1::int"
			" ORDER BY priority DESC, run_at, job_id LIMIT 100))"
			" AND waits_for IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1",
			{id}),
		100);
}

std::string
queue_page(const Call &call)
{
	Json json;
	Notes notes;
	std::string name = call.text("name"), id = queue_id_of(call, name);
	const Catalog &catalog = call.use.catalog;

	/* The options and the numbers of the queue, as one object. */
	json.begin_object().name("queue").begin_object();
	std::string options = catalog.list("queue", "v", notes);
	write_members(
		json, call.read("SELECT " + options + " FROM pgq_ext.queue v WHERE v.queue = $1", {name}),
		0);
	std::string status = catalog.list("queue_status", "v", notes, {}, {"queue", "paused"});
	if (!status.empty())
	{
		Rows rows = call.read(
			"SELECT " + status + " FROM pgq_ext.queue_status v WHERE v.queue = $1", {name});
		if (rows.size() > 0)
			write_members(json, rows, 0);
	}
	write_queue_rates(json, call, name);
	json.end_object();

	/* What belongs to the queue. */
	write_one(json, call, notes, "stats", "queue_stats");
	write_one(json, call, notes, "handler", "handler");
	write_list(json, call, notes, "bindings", "binding", "WHERE v.queue = $1 ORDER BY v.pattern",
			   {name});
	write_list(json, call, notes, "watches", "watch", "WHERE v.target IN ($1, 'queue:' || $1)",
			   {name});
	write_list(json, call, notes, "schedules", "schedule", "WHERE v.queue = $1 ORDER BY v.schedule",
			   {name});
	write_list(json, call, notes, "latency", "queue_latency",
			   "WHERE v.queue = $1 ORDER BY v.phase, v.le_seconds", {name});
	write_waiting(json, call, notes, id);
	write_notes(json, notes);
	json.end_object();
	return json.take();
}

} // namespace web
