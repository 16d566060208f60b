#include "api.h"

#include <charconv>
#include <cmath>

namespace web {

std::string
Call::text(const std::string &name) const
{
	auto found = parameters.find(name);
	return found == parameters.end() ? "" : found->second;
}

bool
is_integer(std::string_view text)
{
	int64_t number;
	auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
	return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

int64_t
Call::number(const std::string &name, int64_t missing, int64_t least, int64_t most) const
{
	std::string given = text(name);
	if (given.empty())
		return missing;
	int64_t number = 0;
	if (is_integer(given))
		std::from_chars(given.data(), given.data() + given.size(), number);
	if (!is_integer(given) || number < least || number > most)
		throw Failure{400, "argument",
					  name + " must be a number from " + std::to_string(least) + " to " +
						  std::to_string(most)};
	return number;
}

Endpoint
endpoint(std::string_view name)
{
	static const std::map<std::string_view, Endpoint> kEndpoints = {
		{"overview", overview},	   {"health", health_page},		  {"history", history_of},
		{"queue", queue_page},	   {"jobs", jobs_page},			  {"job", job_page},
		{"dead", dead_page},	   {"schedules", schedules_page}, {"handlers", handlers_page},
		{"batches", batches_page}, {"locks", locks_page},		  {"rates", rates_page},
		{"runs", runs_page},	   {"capacity", capacity_page},
	};
	auto found = kEndpoints.find(name);
	return found == kEndpoints.end() ? nullptr : found->second;
}

const std::set<std::string> &
hidden_columns(const Options &options)
{
	/* The page needs no tokens, with which others could end a job or a lock. */
	static const std::set<std::string> kAlways = {"lease", "token", "segment"};
	static const std::set<std::string> kHidden = {"lease",	 "token",  "segment",  "payload",
												  "headers", "result", "progress", "metadata",
												  "options", "value"};
	return options.hides_payload ? kHidden : kAlways;
}

void
write_list(Json &json, const Call &call, Notes &notes, const std::string &member,
		   const std::string &relation, const std::string &rest, const Values &values, int most,
		   bool writes_more)
{
	std::string list =
		call.use.catalog.list(relation, "v", notes, {}, hidden_columns(call.options));
	json.name(member);
	if (list.empty())
	{
		json.begin_array().end_array();
		if (writes_more)
			json.name("more").flag(false);
		return;
	}
	Rows rows = call.read(
		"SELECT " + list + " FROM pgq_ext." + relation + " v " + rest + limit_of(most), values);
	write_rows(json, rows, most);
	if (writes_more)
		json.name("more").flag(rows.size() > most);
}

std::string
queue_id_of(const Call &call, const std::string &queue)
{
	if (!call.use.catalog.can_read("queue", {"queue", "queue_id"}))
		throw Failure{403, "42501",
					  "role \"" + call.use.catalog.role + "\" may not read pgq_ext.queue"};
	Rows rows = call.read("SELECT queue_id FROM pgq_ext.queue WHERE queue = $1", {queue});
	if (rows.size() == 0)
		throw Failure{404, "42704", "queue \"" + queue + "\" does not exist"};
	return *rows.value(0, "queue_id");
}

/* ---- cursors ---- */

std::string
written(const Cursor &cursor)
{
	return cursor.priority + "_" + cursor.run_at + "_" + cursor.job_id;
}

std::optional<Cursor>
parsed_cursor(const std::string &text)
{
	if (text.empty())
		return {};
	size_t first = text.find('_'), second = text.find('_', first == text.npos ? first : first + 1);
	if (second != text.npos)
	{
		Cursor cursor = {text.substr(0, first), text.substr(first + 1, second - first - 1),
						 text.substr(second + 1)};
		bool is_time = !cursor.run_at.empty() && cursor.run_at.size() < 40 &&
					   cursor.run_at.find_first_not_of("0123456789-:.TZ") == text.npos;
		if (is_integer(cursor.priority) && is_integer(cursor.job_id) && is_time)
			return cursor;
	}
	throw Failure{400, "argument", "after is no cursor of this list"};
}

/* ---- lists of a view each ---- */

static std::string
list_page(const Call &call, const std::string &relation, const std::string &rest,
		  const Values &values = {})
{
	Json json;
	Notes notes;
	json.begin_object();
	write_list(json, call, notes, "rows", relation, rest, values, 1000, true);
	write_notes(json, notes);
	json.end_object();
	return json.take();
}

std::string
schedules_page(const Call &call)
{
	return list_page(call, "schedule", "WHERE $1 IN ('', v.queue) ORDER BY v.schedule",
					 {call.text("queue")});
}

std::string
handlers_page(const Call &call)
{
	return list_page(call, "handler", "ORDER BY v.queue");
}

std::string
locks_page(const Call &call)
{
	return list_page(call, "lock", "ORDER BY v.name, v.slot");
}

/* Named runs, the last ones first. */
std::string
runs_page(const Call &call)
{
	return list_page(call, "run", "ORDER BY v.started_at DESC, v.name");
}

std::string
capacity_page(const Call &call)
{
	return list_page(call, "capacity", "ORDER BY v.name");
}

std::string
rates_page(const Call &call)
{
	return list_page(call, "rate", "ORDER BY v.name");
}

/*
 * The numbers of members of a batch take as long as reading the members, so the list has only the
 * columns that are in the row of the batch; the page of a job shows the numbers of its batch.
 */
std::string
batches_page(const Call &call)
{
	Json json;
	Notes notes;
	std::string after = call.text("after");
	int limit = static_cast<int>(call.number("limit", 100, 1, 500));
	if (!after.empty() && !is_integer(after))
		throw Failure{400, "argument", "after is no cursor of this list"};
	/* Leave the numbers out, unless one batch is asked for. */
	std::set<std::string> without = hidden_columns(call.options);
	bool has_numbers = !call.text("batch").empty();
	if (!has_numbers)
		without.insert(
			{"total", "waiting", "leased", "acked", "dead", "cancelled", "expired", "deleted"});
	std::string list = call.use.catalog.list("batch", "v", notes, {}, without);
	json.begin_object().name("rows");
	if (list.empty())
		json.begin_array().end_array().name("more").flag(false);
	else
	{
		Rows rows = call.read(
			"SELECT " + list +
				" FROM pgq_ext.batch v WHERE ($1 = '' OR v.batch < nullif($1, '')::bigint)"
				" AND ($2 = '' OR v.batch = nullif($2, '')::bigint) ORDER BY v.batch DESC" +
				limit_of(limit),
			{after, has_numbers ? std::to_string(call.number("batch", 0, 1, INT64_MAX)) : ""});
		bool has_more = rows.size() > limit;
		write_rows(json, rows, limit);
		json.name("more").flag(has_more);
		json.name("after").text_or_null(has_more ? rows.value(limit - 1, "batch") : Value());
	}
	write_notes(json, notes);
	json.end_object();
	return json.take();
}

} // namespace web
