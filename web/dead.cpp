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

/*
 * Return the SQL of two columns. The first one is a pattern of LIKE for pgq_redrive that fits the error: the error itself, with its
 * special characters escaped. A pattern has at most 1000 bytes, so a longer error gives its first 240
 * characters and a %. The second column tells whether the pattern fits only this error.
 */
std::string
pattern_of(const std::string &error)
{
	auto escaped = [](const std::string &text) {
		return "replace(replace(replace(" + text + ", '\\', '\\\\'), '%', '\\%'), '_', '\\_')";
	};
	std::string whole = escaped(error);
	return "CASE WHEN " + error + " = '' THEN NULL WHEN octet_length(" + whole + ") <= 1000 THEN " +
		   whole + " ELSE " + escaped("left(" + error + ", 240)") + " || '%' END AS error_like, " +
		   "octet_length(" + whole + ") <= 1000 AS error_like_is_exact";
}

/* Write the groups of dead letters with the same queue and error, the largest first. */
std::string
groups_page(const Call &call, const std::string &queue)
{
	Json json;
	Notes notes;
	const std::string groups =
		"SELECT queue, left(last_error, 2000) AS error, " + pattern_of("last_error") +
		", count(*) AS jobs, " + shown_as("min(died_at)", "timestamp with time zone") +
		" AS first, " + shown_as("max(died_at)", "timestamp with time zone") +
		" AS last, max(job_id) AS sample_id, sum(count(*)) OVER ()::bigint AS searched FROM (" +
		newest("", kDeadWindow) +
		") g GROUP BY queue, last_error ORDER BY count(*) DESC, max(died_at) DESC";
	Rows rows = call.read(groups + limit_of(200), {queue});
	json.begin_object().name("rows").begin_array();
	/* The last column is for the whole answer. */
	for (int row = 0; row < rows.size() && row < 200; row++)
	{
		json.begin_object();
		write_members(json, rows, row, 0, rows.columns() - 2);
		json.end_object();
	}
	json.end_array().name("more").flag(rows.size() > 200).name("after").null();
	json.name("searched").number(rows.number(0, "searched").value_or(0));
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
			limit_of(limit) + "), x AS (SELECT " + list +
			" FROM pgq_ext.dead_letter v WHERE v.job_id = ANY (ARRAY(SELECT job_id FROM m)))"
			" SELECT x.*, c.searched FROM (SELECT count(*) AS searched FROM w) c"
			" LEFT JOIN x ON true ORDER BY x.died_at DESC, x.job_id DESC",
		values);
	/* Without a match there is one row, which has only the number of rows looked at. */
	int found = rows.value(0, "job_id") ? rows.size() : 0;
	bool has_more = found > limit;
	json.begin_object().name("rows").begin_array();
	for (int row = 0; row < found && row < limit; row++)
	{
		json.begin_object();
		write_members(json, rows, row, 0, rows.columns() - 2);
		json.end_object();
	}
	json.end_array();
	Value after;
	if (has_more)
		after = written({"0", rows.value(limit - 1, "died_at").value_or(""),
						 rows.value(limit - 1, "job_id").value_or("")});
	json.name("more").flag(has_more).name("after").text_or_null(after).name("searched");
	if (filters)
		json.number(rows.number(0, "searched").value_or(0));
	else
		json.null();
	write_notes(json, notes);
	json.end_object();
	return json.take();
}

} // namespace web
