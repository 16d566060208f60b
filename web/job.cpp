/* The page of a job: its row, why it waits or how it has ended, and all that belongs to it. */
#include "api.h"

#include <algorithm>
#include <functional>

namespace web {

namespace {

constexpr int kMostOfAList = 200;

struct Event
{
	std::string at, what;
	Value detail;
};

/* What is collected about a job while its page is written. */
struct JobPage
{
	const Call &call;
	const std::string id;
	Notes notes;
	std::vector<Event> events;
	Value batch;

	void add_event(const Value &at, const std::string &what, const Value &detail = {})
	{
		if (at)
			events.push_back({*at, what, detail});
	}
	/* Run a query of a part of the page. If it fails, the part is missing, and a note says why. */
	std::optional<Rows> part(const std::string &name, const std::string &sql)
	{
		try
		{
			return call.read(sql, {id});
		}
		catch (const Failure &failure)
		{
			if (failure.status == 503)
				throw;
			notes.insert(name + ": " + failure.message);
			return {};
		}
	}
	/* Read the rows of a relation that belong to the job. */
	std::optional<Rows> rows_of(const std::string &relation, const std::string &rest)
	{
		std::string list =
			call.use.catalog.list(relation, "v", notes, {}, hidden_columns(call.options));
		if (list.empty())
			return {};
		return part("pgq_ext." + relation,
					"SELECT " + list + " FROM pgq_ext." + relation + " v " + rest);
	}
};

void
write_part(Json &json, const char *name, const std::optional<Rows> &rows, int most = kMostOfAList)
{
	json.name(name);
	if (rows)
		write_rows(json, *rows, most);
	else
		json.begin_array().end_array();
}

/* ---- the row of the job ---- */

/* Where a row of the job may be: the relation to read, and the table that has its texts. */
struct Place
{
	const char *where, *relation, *table;
};
constexpr Place kPlaces[] = {{"live", "job_status", "job"},
							 {"dead", "dead_letter", "dead_letter"},
							 {"finished", "finished_job", "finished_job"}};

/* Return the SQL of the state of a live job with alias j. */
constexpr const char *kStateOfJob =
	"CASE WHEN EXISTS (SELECT FROM pgq_ext.lease_of(j.job_id) l WHERE l.state = 'claimed') THEN "
	"'leased' WHEN j.run_at = '9999-12-01 00:00:00+00' THEN 'blocked'"
	" WHEN j.run_at > clock_timestamp() AND (j.run_at > j.enqueued_at OR j.attempts > 0)"
	" THEN 'scheduled' ELSE 'ready' END";

/*
 * The view job_status reads the entries of all queues in memory, also for one job. So roles that may
 * read the table, and ask pgq_explain what the job waits for, do not read the view.
 */
bool
can_do_without_status(const Catalog &catalog)
{
	return catalog.can_call("pgq_explain") && catalog.can_read("lease", {"job_id"}) &&
		   catalog.can_read("queue", {"queue", "queue_id", "max_attempts"}) &&
		   catalog.can_read("job", {"job_id", "queue_id", "priority", "run_at", "enqueued_at",
									"attempts", "max_attempts", "group_key", "unique_key",
									"expires_at", "last_error", "payload", "headers"});
}

/* Return the query for the columns of job_status of a live job, without waits_for. */
std::string
live_job_sql()
{
	auto time = [](const std::string &column) {
		return shown_as(column, "timestamp with time zone");
	};
	return std::string("SELECT j.job_id, q.queue, ") + kStateOfJob + " AS state, j.priority, " +
		   time("j.run_at") +
		   " AS run_at, j.attempts, coalesce(j.max_attempts, q.max_attempts) AS max_attempts,"
		   " left(j.group_key, 10000) AS group_key, left(j.unique_key, 10000) AS unique_key, " +
		   time("j.enqueued_at") + " AS enqueued_at, " + time("j.expires_at") +
		   " AS expires_at, left(l.worker, 10000) AS worker, " + time("l.lease_expires_at") +
		   " AS lease_expires_at, left(j.last_error, 10000) AS last_error,"
		   " pgq_ext.batch_of(j) AS batch"
		   " FROM pgq_ext.job j JOIN pgq_ext.queue q USING (queue_id)"
		   " LEFT JOIN LATERAL pgq_ext.lease_of(j.job_id) l ON l.state = 'claimed'"
		   " WHERE j.job_id = $1::bigint LIMIT 1";
}

/* Note what the time line and the batch need of the row. */
void
note_row(JobPage &page, const Rows &rows, bool is_live)
{
	page.batch = rows.value(0, "batch") ? rows.value(0, "batch") : rows.value(0, "batch_id");
	page.add_event(rows.value(0, "enqueued_at"), "enqueued");
	page.add_event(rows.value(0, "died_at"), "died", rows.value(0, "reason"));
	page.add_event(rows.value(0, "finished_at"), "finished", rows.value(0, "outcome"));
	bool is_delayed = rows.value(0, "run_at") > rows.value(0, "enqueued_at");
	if (is_live && is_delayed && rows.value(0, "state") != "blocked")
		page.add_event(rows.value(0, "run_at"), "due");
}

/*
 * Write the columns of the row; return its place, or nullptr if there is no row. explanation: of
 * pgq_explain, whose first row says what a live job waits for.
 */
const Place *
write_job(Json &json, JobPage &page, const std::optional<Rows> &explanation)
{
	json.name("job").begin_object();
	for (const Place &place : kPlaces)
	{
		const Catalog &catalog = page.call.use.catalog;
		bool is_live = &place == &kPlaces[0];
		bool is_light = is_live && explanation && can_do_without_status(catalog);
		std::string list =
			is_light ? ""
					 : catalog.list(place.relation, "v", page.notes, {},
									{"payload", "headers", "result", "progress", "segment"});
		if (list.empty() && !is_light)
			continue;
		std::optional<Rows> rows =
			page.part(std::string("pgq_ext.") + place.relation,
					  is_light ? live_job_sql()
							   : "SELECT " + list + " FROM pgq_ext." + place.relation +
									 " v WHERE v.job_id = $1::bigint LIMIT 1");
		if (!rows || rows->size() == 0)
			continue;
		/* This is its place: write its columns. */
		json.name("where").text(std::string_view(place.where));
		write_members(json, *rows, 0);
		if (is_light)
			json.name("waits_for")
				.text_or_null(rows->value(0, "state") == "leased"
								  ? Value()
								  : explanation->value(0, "detail"));
		if (place.where == std::string_view("finished") &&
			catalog.can_read("queue", {"queue", "queue_id"}))
		{
			Rows queue = page.call.read(
				"SELECT queue FROM pgq_ext.queue WHERE queue_id = nullif($1, '')::int",
				{rows->value(0, "queue_id")});
			json.name("queue").text_or_null(queue.value(0, "queue"));
		}
		json.end_object();
		note_row(page, *rows, is_live);
		return &place;
	}
	json.name("where").null().end_object();
	return nullptr;
}

/* Write the payload and the other JSON texts of the row, if they are not too long. */
void
write_texts(Json &json, JobPage &page, const Place *place)
{
	const Catalog &catalog = page.call.use.catalog;
	const char *longest = page.call.text("full") == "1" ? "8000000" : "100000";
	/* Read the texts that the role may read. */
	std::string list;
	for (const std::string column : {"payload", "headers", "result", "progress"})
	{
		bool is_read = place != nullptr && !page.call.options.hides_payload &&
					   catalog.can_read(place->table, {column});
		if (is_read)
			list += (list.empty() ? "" : ", ") +
					("octet_length(v." + column + "::text)::bigint AS " + column + "_bytes") +
					", CASE WHEN octet_length(v." + column + "::text) <= " + longest + " THEN v." +
					column + "::text END AS " + column;
		else if (place != nullptr && column == "payload")
			page.notes.insert(page.call.options.hides_payload
								  ? "payloads are hidden"
								  : "role " + catalog.role + " may not read payloads");
	}
	std::optional<Rows> rows;
	if (!list.empty())
		rows =
			page.part("payload", "SELECT " + list + " FROM pgq_ext." + std::string(place->table) +
									 " v WHERE v.job_id = $1::bigint LIMIT 1");
	for (const char *column : {"payload", "headers", "result", "progress", "payload_bytes"})
		json.name(column).text_or_null(rows ? rows->value(0, column) : Value());
}

/* ---- what belongs to the job ---- */

void
write_attempts(Json &json, JobPage &page)
{
	std::optional<Rows> attempts = page.rows_of(
		"attempt", "WHERE v.job_id = $1::bigint ORDER BY v.claimed_at" + limit_of(kMostOfAList));
	write_part(json, "attempts", attempts);
	for (int row = 0; attempts && row < attempts->size(); row++)
	{
		page.add_event(attempts->value(row, "claimed_at"), "claimed",
					   attempts->value(row, "worker"));
		page.add_event(attempts->value(row, "ended_at"),
					   attempts->value(row, "outcome").value_or("ended"),
					   attempts->value(row, "error"));
	}
	std::optional<Rows> lease;
	if (page.call.use.catalog.can_read("lease", {"job_id", "queue", "worker", "claimed_at"}))
		lease = page.part("pgq_ext.lease",
						  "SELECT " + shown_as("l.claimed_at", "timestamp with time zone") +
							  " AS claimed_at, left(l.worker, 200) AS worker FROM pgq_ext.lease l "
							  "WHERE l.job_id = $1::bigint");
	if (lease && lease->size() > 0)
		page.add_event(lease->value(0, "claimed_at"), "claimed", lease->value(0, "worker"));
}

/*
 * Return the SQL of the state of the job with that id: of a live job its state; dead; or how the job
 * has ended. NULL: the role may not know, or there are no records.
 */
std::string
state_sql(const Catalog &catalog, const std::string &id)
{
	std::string sql = "coalesce(NULL::text";
	if (catalog.can_read("job", {"job_id", "run_at", "enqueued_at", "attempts"}) &&
		catalog.can_read("lease", {"job_id"}))
		sql += std::string(", (SELECT ") + kStateOfJob +
			   " FROM pgq_ext.job j WHERE j.job_id = " + id + " LIMIT 1)";
	if (catalog.can_read("dead_letter", {"job_id"}))
		sql += ", (SELECT 'dead' FROM pgq_ext.dead_letter x WHERE x.job_id = " + id + " LIMIT 1)";
	if (catalog.can_read("job_outcome", {"job_id", "outcome"}))
		sql += ", (SELECT ('{acked,cancelled,expired,purged,dropped,deleted,deleted}'::text[])"
			   "[x.outcome] FROM pgq_ext.job_outcome x WHERE x.job_id = " +
			   id + " LIMIT 1)";
	if (catalog.can_read("finished_job", {"job_id", "outcome"}))
		sql +=
			", (SELECT x.outcome FROM pgq_ext.finished_job x WHERE x.job_id = " + id + " LIMIT 1)";
	return sql + ")";
}

/* Write the jobs for which the job waits (parents), or those that wait for it (children). */
void
write_relatives(Json &json, JobPage &page, const char *name, const std::string &own,
				const std::string &other)
{
	const Catalog &catalog = page.call.use.catalog;
	std::optional<Rows> rows;
	if (catalog.can_read("job_dependency", {"parent_id", "child_id", "ref", "on_failure"}))
		rows = page.part(name, "SELECT v." + other +
								   " AS job_id, left(v.ref, 1000) AS ref,"
								   " ('{cancel,run,hold}'::text[])[v.on_failure] AS on_failure, " +
								   state_sql(catalog, "v." + other) +
								   " AS state FROM pgq_ext.job_dependency v WHERE v." + own +
								   " = $1::bigint ORDER BY v." + other + limit_of(kMostOfAList));
	else
		page.notes.insert("role " + catalog.role + " may not read pgq_ext.job_dependency");
	write_part(json, name, rows);
}

void
write_family(Json &json, JobPage &page)
{
	write_relatives(json, page, "parents", "child_id", "parent_id");
	write_relatives(json, page, "children", "parent_id", "child_id");
	write_part(
		json, "steps",
		page.rows_of("job_checkpoint", "WHERE v.job_id = $1::bigint ORDER BY v.kept_at, v.step" +
										   limit_of(kMostOfAList)));
	json.name("batch");
	/* The batch is found by its own number, not by that of the job. */
	std::optional<Rows> batch;
	std::string list = page.batch ? page.call.use.catalog.list("batch", "v", page.notes, {},
															   hidden_columns(page.call.options))
								  : "";
	if (!list.empty())
	{
		JobPage of_batch{page.call, *page.batch, {}, {}, {}};
		batch = of_batch.part(
			"pgq_ext.batch", "SELECT " + list + " FROM pgq_ext.batch v WHERE v.batch = $1::bigint");
		page.notes.merge(of_batch.notes);
	}
	if (!batch || batch->size() == 0)
	{
		json.null();
		return;
	}
	json.begin_object();
	write_members(json, *batch, 0);
	json.end_object();
}

void
write_timeline(Json &json, JobPage &page)
{
	std::stable_sort(page.events.begin(), page.events.end(),
					 [](const Event &a, const Event &b) { return a.at < b.at; });
	json.name("timeline").begin_array();
	for (const Event &event : page.events)
		json.begin_object()
			.name("at")
			.text(std::string_view(event.at))
			.name("what")
			.text(std::string_view(event.what))
			.name("detail")
			.text_or_null(event.detail)
			.end_object();
	json.end_array();
}

} // namespace

std::string
job_page(const Call &call)
{
	Json json;
	JobPage page{call, std::to_string(call.number("id", -1, 0, INT64_MAX)), {}, {}, {}};
	if (call.text("id").empty())
		throw Failure{400, "argument", "id is needed"};
	json.begin_object();
	std::optional<Rows> explanation =
		page.part("pgq_explain", "SELECT step, detail FROM " +
									 call.use.catalog.function("pgq_explain") + "($1::bigint)");
	const Place *place = write_job(json, page, explanation);
	write_texts(json, page, place);
	write_part(json, "explanation", explanation);
	write_attempts(json, page);
	write_family(json, page);
	write_timeline(json, page);
	write_notes(json, page.notes);
	json.end_object();
	return json.take();
}

} // namespace web
