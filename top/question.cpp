#include "question.h"

namespace top {

std::string
looking(const std::string &sql)
{
	return "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SET LOCAL statement_timeout = '" +
		   std::to_string(kSecondsForLooking) +
		   "s'; SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL DateStyle = 'ISO';"
		   " SET LOCAL TimeZone = 'UTC'; SET LOCAL extra_float_digits = 1; " +
		   sql + "; COMMIT";
}

/* ---- the server ---- */

static std::string
server_sql(Sight &)
{
	return "SELECT to_char(clock_timestamp(), 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') AS taken_at,"
		   " to_char(clock_timestamp(), 'HH24:MI:SS') AS clock,"
		   " current_setting('server_version') AS version, current_database() AS database,"
		   " current_user AS role, pg_is_in_recovery() AS standby,"
		   " (SELECT extversion FROM pg_extension WHERE extname = 'pgq_ext') AS extension,"
		   " coalesce(has_schema_privilege(to_regnamespace('pgq_ext')::oid, 'USAGE'), false) AS "
		   "usage";
}

static void
read_server(const Answer &answer, Sight &sight)
{
	Server &server = sight.snapshot.server;
	server.taken_at = answer.text_or_nothing(0, "taken_at");
	server.clock = answer.text_or_nothing(0, "clock");
	server.version = answer.text_or_nothing(0, "version");
	server.database = answer.text_or_nothing(0, "database");
	server.role = answer.text_or_nothing(0, "role");
	server.is_standby = answer.flag(0, "standby").value_or(false);
	server.extension = answer.text_or_nothing(0, "extension");
	server.may_use_schema = answer.flag(0, "usage").value_or(false);
	if (server.extension.empty())
		sight.snapshot.notes.push_back("the extension pgq_ext is not in database " +
									   server.database + ": CREATE EXTENSION pgq_ext");
	else if (!server.may_use_schema)
		sight.snapshot.notes.push_back("role " + server.role +
									   " may not look into schema pgq_ext: GRANT USAGE ON SCHEMA"
									   " pgq_ext, and what the page on operations says of roles");
	sight.snapshot.is_incomplete = server.extension.empty() || !server.may_use_schema;
}

const Question server_question = {"the server", server_sql, read_server};

/*
 * Return the query about the relations of the extension. The answer has no rows for views that do
 * not exist.
 */
static std::string
relations_sql(Sight &)
{
	return "SELECT c.relname AS relation, a.attname AS column,"
		   " has_column_privilege(c.oid, a.attnum, 'SELECT') AS readable"
		   " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
		   " WHERE c.relnamespace = to_regnamespace('pgq_ext') AND a.attnum > 0"
		   " AND NOT a.attisdropped AND c.relname IN ('queue', 'queue_status', 'queue_stats',"
		   " 'health', 'handler', 'batch', 'lease', 'dead_job')";
}

static void
read_relations(const Answer &answer, Sight &sight)
{
	for (int row = 0; row < answer.size(); row++)
		sight.relations[answer.text_or_nothing(row, "relation")]
					   [answer.text_or_nothing(row, "column")] =
			answer.flag(row, "readable").value_or(false);
}

const Question relations_question = {"the views", relations_sql, read_relations};

static std::string
functions_sql(Sight &)
{
	return "SELECT p.proname AS function,"
		   " quote_ident(n.nspname) || '.' || quote_ident(p.proname) AS called,"
		   " has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')"
		   " AS may_execute"
		   " FROM pg_extension e JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass"
		   " AND d.refobjid = e.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'"
		   " JOIN pg_proc p ON p.oid = d.objid JOIN pg_namespace n ON n.oid = p.pronamespace"
		   " WHERE e.extname = 'pgq_ext' AND p.proname IN ('pgq_pause_queue', 'pgq_resume_queue',"
		   " 'pgq_redrive', 'pgq_retry', 'pgq_cancel')";
}

static void
read_functions(const Answer &answer, Sight &sight)
{
	for (int row = 0; row < answer.size(); row++)
		sight.snapshot.functions[answer.text_or_nothing(row, "function")] = {
			answer.text_or_nothing(row, "called"), answer.flag(row, "may_execute").value_or(false)};
}

const Question functions_question = {"the functions", functions_sql, read_functions};

} // namespace top
