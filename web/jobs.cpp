/*
 * The list of jobs. A search has two steps. The first one finds the ids of a page: it walks along an
 * index of pgq_ext.job, and looks at no more than kWindow rows if a filter has no index. The second
 * one reads the view job_status for these ids only, since the view computes much for each row.
 */
#include "api.h"

namespace web {

namespace {

constexpr int kWindow = 10000;

/* A search: the filters, and the parameters of the statement. */
struct Search
{
	std::string state, group, key, error, payload;
	std::optional<Cursor> after;
	int limit;
	Values values;

	/* Add a parameter, and return its name in the statement. */
	std::string parameter(Value value)
	{
		values.push_back(std::move(value));
		return "$" + std::to_string(values.size());
	}
	/* Whether a filter has no index. */
	bool has_window() const { return !error.empty() || !payload.empty() || state == "ready"; }
};

/* The ids of a page in order, and where the next page begins. */
struct Found
{
	std::vector<std::string> ids;
	bool has_more = false;
	std::optional<Cursor> last;
	std::optional<int> searched;
};

Search
search_of(const Call &call)
{
	Search search = {call.text("state"),
					 call.text("group"),
					 call.text("key"),
					 call.text("error"),
					 call.text("payload"),
					 parsed_cursor(call.text("after")),
					 static_cast<int>(call.number("limit", 100, 1, 500)),
					 {}};
	for (const char *state : {"", "ready", "scheduled", "blocked", "leased"})
		if (search.state == state)
		{
			if (!search.payload.empty() && call.options.hides_payload)
				throw Failure{403, "argument", "payloads are hidden, so they cannot be searched"};
			return search;
		}
	throw Failure{400, "argument", "state must be ready, scheduled, blocked or leased"};
}

/* ---- the first step, by the indexes of pgq_ext.job ---- */

bool
can_walk_jobs(const Call &call, const Search &search)
{
	std::vector<std::string> columns = {"job_id", "queue_id",	 "priority",
										"run_at", "enqueued_at", "attempts"};
	if (!search.group.empty())
		columns.insert(columns.end(), {"group_id", "group_key"});
	if (!search.key.empty())
		columns.insert(columns.end(), {"unique_hash", "unique_key"});
	if (!search.error.empty())
		columns.push_back("last_error");
	if (!search.payload.empty())
		columns.push_back("payload");
	return call.use.catalog.can_read("job", columns);
}

/* Return the conditions that an index supports. */
std::string
indexed_conditions(Search &search, const std::string &queue_id)
{
	std::string sql = "j.queue_id = " + search.parameter(queue_id) + "::int";
	if (!search.group.empty())
	{
		std::string group = search.parameter(search.group);
		sql +=
			" AND j.group_id = hashtextextended(" + group + ", 0) | 1 AND j.group_key = " + group;
	}
	if (!search.key.empty())
	{
		std::string key = search.parameter(search.key);
		sql += " AND j.unique_hash = hashtextextended(" + key +
			   ", j.queue_id) AND j.unique_key = " + key;
	}
	const std::string delayed = " AND (j.run_at > j.enqueued_at OR j.attempts > 0)";
	if (search.state == "scheduled")
		sql += delayed + " AND j.run_at > now() AND j.run_at < '9999-12-01 00:00:00+00'";
	if (search.state == "blocked")
		sql += delayed + " AND j.run_at = '9999-12-01 00:00:00+00'";
	return sql;
}

/* Return the conditions for the rows of the window. The alias is w. */
std::string
window_conditions(Search &search, const Call &call)
{
	std::string sql = "true";
	if (!search.error.empty())
		sql +=
			" AND strpos(lower(w.last_error), lower(" + search.parameter(search.error) + ")) > 0";
	if (!search.payload.empty())
		sql += " AND w.payload @> " + search.parameter(search.payload) + "::jsonb";
	if (search.state == "ready")
	{
		sql += " AND w.run_at <= clock_timestamp()";
		if (call.use.catalog.can_read("lease", {"job_id", "queue"}))
			sql += " AND w.job_id NOT IN (SELECT l.job_id FROM pgq_ext.lease l)";
	}
	return sql;
}

/*
 * Return the query of the window: rows in the order of the page, after the cursor. The order by
 * priority takes two branches, of which each reads one range of the index.
 */
std::string
window_sql(Search &search, const std::string &where, int most)
{
	std::string columns = "j.job_id, j.priority, j.run_at";
	if (!search.error.empty())
		columns += ", j.last_error";
	if (!search.payload.empty())
		columns += ", j.payload";
	const std::string limit = " LIMIT " + std::to_string(most);
	const std::string select = "SELECT " + columns + " FROM pgq_ext.job j WHERE " + where;
	const std::string by_time = " ORDER BY j.run_at, j.job_id" + limit;
	const std::string by_order = " ORDER BY j.priority DESC, j.run_at, j.job_id" + limit;
	bool is_by_time = search.state == "scheduled" || search.state == "blocked";
	if (!search.after)
		return select + (is_by_time ? by_time : by_order);
	std::string priority = search.parameter(search.after->priority) + "::int";
	std::string later = " AND (j.run_at, j.job_id) > (" + search.parameter(search.after->run_at) +
						"::timestamptz, " + search.parameter(search.after->job_id) + "::bigint)";
	if (is_by_time)
		return select + later + " AND " + priority + " IS NOT NULL" + by_time;
	return "(" + select + " AND j.priority = " + priority + later + by_time + ") UNION ALL (" +
		   select + " AND j.priority < " + priority + by_order + ")" + limit;
}

/* Return the query for jobs in work: their leases are in memory. */
std::string
leased_sql(Search &search, const std::string &where, int most)
{
	std::string sql = "SELECT j.job_id, j.priority, j.run_at" +
					  std::string(search.error.empty() ? "" : ", j.last_error") +
					  (search.payload.empty() ? "" : ", j.payload") +
					  " FROM pgq_ext.lease l JOIN pgq_ext.job j USING (job_id) WHERE " + where;
	if (search.after)
		sql += " AND j.job_id > " + search.parameter(search.after->job_id) + "::bigint";
	return sql + " ORDER BY j.job_id LIMIT " + std::to_string(most);
}

/* ---- the first step, without the right to read pgq_ext.job ---- */

/*
 * Return the query of the window by pgq_ext.first_jobs(), which shows the jobs of the view job_status
 * to all who may read that view. Filters have no index here.
 */
std::string
listed_sql(Search &search, const std::string &queue_id, int most, const Catalog &catalog)
{
	if (!search.payload.empty())
		throw Failure{403, "42501", "role \"" + catalog.role + "\" may not read payloads"};
	std::string sql = "SELECT * FROM " + catalog.function("first_jobs") + "(" +
					  search.parameter(queue_id) + "::int, " + std::to_string(most);
	if (search.after)
		sql += ", " + search.parameter(search.after->priority) + "::int, " +
			   search.parameter(search.after->run_at) + "::timestamptz, " +
			   search.parameter(search.after->job_id) + "::bigint";
	return sql + ")";
}

/* Return the conditions of the filters that have an index elsewhere. The alias is w. */
std::string
listed_conditions(Search &search)
{
	std::string sql;
	if (!search.group.empty())
		sql += " AND w.group_key = " + search.parameter(search.group);
	if (!search.key.empty())
		sql += " AND w.unique_key = " + search.parameter(search.key);
	if (search.state == "scheduled")
		sql += " AND w.run_at > clock_timestamp() AND (w.run_at > w.enqueued_at OR w.attempts > 0)"
			   " AND w.run_at < '9999-12-01 00:00:00+00'";
	if (search.state == "blocked")
		sql += " AND w.run_at = '9999-12-01 00:00:00+00'";
	if (search.state == "leased")
		sql += " AND w.job_id IN (SELECT l.job_id FROM pgq_ext.lease l)";
	return sql;
}

/* Wrap the query of the window: its matches, at most limit + 1, then its last row and its size. */
std::string
matches_sql(const std::string &window, const std::string &conditions, int limit)
{
	const std::string columns = "job_id, priority, CASE WHEN isfinite(run_at) THEN to_char(run_at,"
								" 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') END AS run_at";
	return "WITH w AS MATERIALIZED (SELECT *, row_number() OVER () AS n FROM (" + window +
		   ") o)"
		   " (SELECT false AS is_last, n, " +
		   columns + " FROM w WHERE " + conditions + " ORDER BY n LIMIT " +
		   std::to_string(limit + 1) +
		   ")"
		   " UNION ALL (SELECT true, n, " +
		   columns + " FROM w ORDER BY n DESC LIMIT 1)";
}

Found
found_by(const Call &call, Search &search, const std::string &queue)
{
	const Catalog &catalog = call.use.catalog;
	bool is_leased = search.state == "leased", walks = can_walk_jobs(call, search);
	if (is_leased && !catalog.can_read("lease", {"job_id", "queue"}))
		throw Failure{403, "42501", "role \"" + catalog.role + "\" may not read pgq_ext.lease"};
	if (!walks && !catalog.has_function("first_jobs"))
		throw Failure{403, "42501", "role \"" + catalog.role + "\" may not read pgq_ext.job", "",
					  "Update the extension: then readers of pgq_ext.job_status can list jobs."};
	bool has_window =
		search.has_window() ||
		(!walks && (!search.group.empty() || !search.key.empty() || !search.state.empty()));
	int most = has_window ? kWindow : search.limit + 1;
	std::string window, conditions, queue_id = queue_id_of(call, queue);
	if (walks)
	{
		std::string where = indexed_conditions(search, queue_id);
		window = is_leased ? leased_sql(search, where, most) : window_sql(search, where, most);
	}
	else
		window = listed_sql(search, queue_id, most, catalog);
	conditions = window_conditions(search, call) + (walks ? "" : listed_conditions(search));
	Rows rows = call.read(matches_sql(window, conditions, search.limit), search.values);

	Found found;
	for (int row = 0; row < rows.size(); row++)
	{
		Cursor cursor = {rows.value(row, "priority").value_or("0"),
						 rows.value(row, "run_at").value_or(""),
						 rows.value(row, "job_id").value_or("")};
		bool is_last = rows.value(row, "is_last") == "t";
		if (!is_last && static_cast<int>(found.ids.size()) < search.limit)
		{
			found.ids.push_back(cursor.job_id);
			found.last = cursor;
		}
		else if (!is_last)
			found.has_more = true;
		else if (has_window)
		{
			int looked_at = static_cast<int>(rows.number(row, "n").value_or(0));
			found.searched = looked_at;
			/* The window is full, and has no further match: the search goes on behind it. */
			if (!found.has_more && looked_at >= kWindow)
			{
				found.has_more = true;
				found.last = cursor;
			}
		}
	}
	return found;
}

} // namespace

/* ---- the second step ---- */

static std::string
array_of(const std::vector<std::string> &ids)
{
	std::string text = "{";
	for (const std::string &id : ids)
		text += (text.size() > 1 ? "," : "") + id;
	return text + "}";
}

std::string
jobs_page(const Call &call)
{
	Json json;
	Notes notes;
	Search search = search_of(call);
	std::string queue = call.text("queue"), id = call.text("id");
	/* The first step: the ids of the page. */
	Found found;
	if (!id.empty())
		found.ids = {std::to_string(call.number("id", 0, 0, INT64_MAX))};
	else if (queue.empty())
		throw Failure{400, "argument", "queue or id is needed"};
	else
		found = found_by(call, search, queue);

	json.begin_object().name("rows");
	std::string list =
		call.use.catalog.list("job_status", "v", notes, {}, hidden_columns(call.options));
	if (list.empty() || found.ids.empty())
		json.begin_array().end_array();
	else
		write_rows(json,
				   call.read("SELECT " + list +
								 " FROM pgq_ext.job_status v WHERE v.job_id = ANY ($1::bigint[])"
								 " ORDER BY array_position($1::bigint[], v.job_id)",
							 {array_of(found.ids)}),
				   1000);
	json.name("more").flag(found.has_more);
	json.name("after").text_or_null(found.has_more && found.last ? Value(written(*found.last))
																 : Value());
	json.name("searched");
	if (found.searched)
		json.number(*found.searched);
	else
		json.null();
	write_notes(json, notes);
	json.end_object();
	return json.take();
}

} // namespace web
