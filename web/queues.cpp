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

/* Rates and times come from the samples, which hold for all who may read the counters. */
static void
write_pace(Json &json, const Call &call, const std::string &queue)
{
	constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
	bool may_see = call.use.catalog.can_read("queue_stats", {"queue", "enqueued", "wait_p95"});
	History::Pace pace = may_see ? call.history.pace(queue)
								 : History::Pace{kUnknown, kUnknown, kUnknown, kUnknown, kUnknown};
	json.name("enqueued_rate").number(pace.enqueued).name("acked_rate").number(pace.acked);
	json.name("failed_rate").number(pace.failed);
	json.name("wait_p95").number(pace.wait_p95).name("run_p95").number(pace.run_p95);
}

static void
write_queues(Json &json, const Call &call, Notes &notes)
{
	Board::Wish wish = {call.text("find"), call.text("sort"),
						static_cast<size_t>(call.number("limit", 200, 1, 10000))};
	bool is_known = wish.sort.empty();
	for (const char *column :
		 {"queue", "ready", "scheduled", "blocked", "leased", "dead", "oldest_ready_age"})
		is_known = is_known || wish.sort == column;
	if (!is_known)
		throw Failure{
			400, "argument",
			"sort must be queue, ready, scheduled, blocked, leased, dead or oldest_ready_age"};
	call.board.refresh(call.use, call.change);
	call.board.write(json, notes, call.use, wish,
					 [&](Json &row, const std::string &queue) { write_pace(row, call, queue); });
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

/*
 * The samples were read with the rights of the program's role. So a role that has logged in sees them
 * only if it may read the counters, and the numbers of ready jobs only of queues that it may see.
 */
std::string
history_of(const Call &call)
{
	std::string queue = call.text("queue").empty() ? "*" : call.text("queue");
	bool shows_ready = true;
	if (call.is_login)
	{
		const Catalog &catalog = call.use.catalog;
		if (!catalog.can_read("queue_stats", {"queue", "enqueued"}))
			throw Failure{403, "42501",
						  "role \"" + catalog.role + "\" may not read pgq_ext.queue_stats"};
		shows_ready =
			catalog.can_read("queue_status", {"ready"}) &&
			catalog.can_read("queue", {"queue", "queue_id"}) &&
			call.read("SELECT coalesce(bool_and(pgq_ext.may_see(queue_id)), false) AS sees"
					  " FROM pgq_ext.queue WHERE $1 IN ('*', queue)",
					  {queue})
					.value(0, "sees") == "t";
	}
	Json json;
	call.history.write(json, queue, shows_ready);
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

/*
 * Write the rights of the role on the queue: all of them while nobody has been given any. They are
 * privileges of the view pgq_ext.rights_<queue_id>.
 */
static void
write_rights(Json &json, const Call &call, const std::string &id)
{
	Rows rows = call.read(
		"SELECT r.name FROM (VALUES (1, 'enqueue', 'INSERT'), (2, 'claim', 'UPDATE'),"
		" (3, 'inspect', 'SELECT, DELETE'), (4, 'admin', 'DELETE')) r (n, name, privilege),"
		" pg_class t LEFT JOIN pg_class v ON v.relnamespace = t.relnamespace"
		" AND v.relname = 'rights_' || $1 WHERE t.oid = 'pgq_ext.queue'::regclass"
		" AND (v.oid IS NULL OR has_table_privilege(v.oid, r.privilege)"
		" OR pg_has_role(t.relowner, 'USAGE')) ORDER BY r.n",
		{id});
	json.name("rights").begin_array();
	for (int row = 0; row < rows.size(); row++)
		json.text_or_null(rows.value(row, "name"));
	json.end_array();
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
	call.board.refresh(call.use, call.change);
	call.board.write_queue(json, notes, call.use, name);
	write_pace(json, call, name);
	json.end_object();

	/* What belongs to the queue. */
	write_rights(json, call, id);
	write_one(json, call, notes, "stats", "queue_stats");
	write_one(json, call, notes, "handler", "handler");
	write_list(json, call, notes, "bindings", "binding", "WHERE v.queue = $1 ORDER BY v.pattern",
			   {name});
	write_list(json, call, notes, "watches", "watch", "WHERE v.target IN ($1, 'queue:' || $1)",
			   {name});
	write_list(json, call, notes, "schedules", "schedule", "WHERE v.queue = $1 ORDER BY v.schedule",
			   {name});
	/* The view of histograms reads those of all queues. */
	if (call.text("latency") == "1")
		write_list(json, call, notes, "latency", "queue_latency",
				   "WHERE v.queue = $1 ORDER BY v.phase, v.le_seconds", {name});
	write_waiting(json, call, notes, id);
	write_notes(json, notes);
	json.end_object();
	return json.take();
}

} // namespace web
