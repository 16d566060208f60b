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

/* Write the columns of the row; return its place, or nullptr if there is no row. */
const Place *
write_job(Json &json, JobPage &page)
{
	json.name("job").begin_object();
	for (const Place &place : kPlaces)
	{
		const Catalog &catalog = page.call.use.catalog;
		std::string list = catalog.list(place.relation, "v", page.notes, {},
										{"payload", "headers", "result", "progress", "segment"});
		if (list.empty())
			continue;
		std::optional<Rows> rows = page.part(std::string("pgq_ext.") + place.relation,
											 "SELECT " + list + " FROM pgq_ext." + place.relation +
												 " v WHERE v.job_id = $1::bigint LIMIT 1");
		if (!rows || rows->size() == 0)
			continue;
		/* This is its place: write its columns, then what the time line and the batch need. */
		json.name("where").text(std::string_view(place.where));
		write_members(json, *rows, 0);
		if (place.where == std::string_view("finished") &&
			catalog.can_read("queue", {"queue", "queue_id"}))
		{
			Rows queue = page.call.read(
				"SELECT queue FROM pgq_ext.queue WHERE queue_id = nullif($1, '')::int",
				{rows->value(0, "queue_id")});
			json.name("queue").text_or_null(queue.value(0, "queue"));
		}
		json.end_object();
		page.batch = rows->value(0, "batch") ? rows->value(0, "batch") : rows->value(0, "batch_id");
		page.add_event(rows->value(0, "enqueued_at"), "enqueued");
		page.add_event(rows->value(0, "died_at"), "died", rows->value(0, "reason"));
		page.add_event(rows->value(0, "finished_at"), "finished", rows->value(0, "outcome"));
		bool is_delayed = rows->value(0, "run_at") > rows->value(0, "enqueued_at");
		if (place.where == std::string_view("live") && is_delayed &&
			rows->value(0, "state") != "blocked")
			page.add_event(rows->value(0, "run_at"), "due");
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

void
write_family(Json &json, JobPage &page)
{
	write_part(json, "parents",
			   page.rows_of("job_dependency", "WHERE v.child_id = $1::bigint ORDER BY v.parent_id" +
												  limit_of(kMostOfAList)));
	write_part(json, "children",
			   page.rows_of("job_dependency", "WHERE v.parent_id = $1::bigint ORDER BY v.child_id" +
												  limit_of(kMostOfAList)));
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
	const Place *place = write_job(json, page);
	write_texts(json, page, place);
	write_part(json, "explanation",
			   page.part("pgq_explain", "SELECT step, detail FROM " +
											call.use.catalog.function("pgq_explain") +
											"($1::bigint)"));
	write_attempts(json, page);
	write_family(json, page);
	write_timeline(json, page);
	write_notes(json, page.notes);
	json.end_object();
	return json.take();
}

} // namespace web
