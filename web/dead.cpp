/* Dead letters: a list, newest first, and groups by error. */
#include "api.h"

namespace web {

namespace {

/* Groups and filters look at no more than this many dead letters. */
constexpr int kDeadWindow = 10000;

/*
 * Return the newest dead letters, of one queue or of all. The columns that are read are only those
 * that a filter needs.
 */
std::string
newest(const std::string &conditions, int most)
{
	return "SELECT v.* FROM (SELECT d.job_id, d.queue, d.died_at, d.last_error FROM "
		   "pgq_ext.dead_letter d"
		   " WHERE ($1 = '' OR d.queue = $1) " +
		   conditions + " ORDER BY d.died_at DESC, d.job_id DESC LIMIT " + std::to_string(most) +
		   ") v";
}

std::string
groups_page(const Call &call, const std::string &queue)
{
	Json json;
	Notes notes;
	Rows rows = call.read("SELECT left(last_error, 2000) AS error, count(*) AS jobs, " +
							  shown_as("min(died_at)", "timestamp with time zone") + " AS first, " +
							  shown_as("max(died_at)", "timestamp with time zone") +
							  " AS last, max(job_id) AS sample_id"
							  " FROM (" +
							  newest("", kDeadWindow) +
							  ") g GROUP BY last_error ORDER BY count(*) DESC, max(died_at) DESC" +
							  limit_of(200),
						  {queue});
	json.begin_object().name("rows");
	write_rows(json, rows, 200);
	json.name("more")
		.flag(rows.size() > 200)
		.name("after")
		.null()
		.name("searched")
		.number(kDeadWindow);
	write_notes(json, notes);
	json.end_object();
	return json.take();
}

} // namespace

std::string
dead_page(const Call &call)
{
	const Catalog &catalog = call.use.catalog;
	std::string queue = call.text("queue"), error = call.text("error"),
				exact = call.text("error_is");
	int limit = static_cast<int>(call.number("limit", 100, 1, 500));
	if (!catalog.can_read("dead_letter", {"job_id", "queue", "died_at", "last_error"}))
		throw Failure{403, "42501",
					  "role \"" + catalog.role + "\" may not read pgq_ext.dead_letter"};
	if (call.text("by") == "error")
		return groups_page(call, queue);

	/* The window is cut after the filter by time, so the next page looks further back. */
	Values values = {queue, error, exact};
	std::string conditions;
	if (std::optional<Cursor> after = parsed_cursor(call.text("after")))
	{
		conditions = "AND (d.died_at, d.job_id) < ($4::timestamptz, $5::bigint)";
		values.insert(values.end(), {after->run_at, after->job_id});
	}
	bool filters = !error.empty() || !exact.empty();
	Json json;
	Notes notes;
	std::string list = catalog.list("dead_letter", "v", notes, {}, {"payload", "headers"});
	Rows rows = call.read(
		"WITH w AS MATERIALIZED (" + newest(conditions, filters ? kDeadWindow : limit + 1) +
			"),"
			" m AS (SELECT job_id FROM w WHERE ($2 = '' OR strpos(lower(last_error), lower($2)) > "
			"0)"
			" AND ($3 = '' OR last_error = $3) ORDER BY died_at DESC, job_id DESC" +
			limit_of(limit) +
			")"
			" SELECT " +
			list +
			" FROM pgq_ext.dead_letter v WHERE v.job_id = ANY (ARRAY(SELECT job_id FROM m))"
			" ORDER BY v.died_at DESC, v.job_id DESC",
		values);
	bool has_more = rows.size() > limit;
	json.begin_object().name("rows");
	write_rows(json, rows, limit);
	Value after;
	if (has_more)
		after = written({"0", rows.value(limit - 1, "died_at").value_or(""),
						 rows.value(limit - 1, "job_id").value_or("")});
	json.name("more").flag(has_more).name("after").text_or_null(after).name("searched");
	if (filters)
		json.number(kDeadWindow);
	else
		json.null();
	write_notes(json, notes);
	json.end_object();
	return json.take();
}

} // namespace web
