#include "catalog.h"

#include <algorithm>

namespace web {

/* ---- reading the catalog ---- */

Catalog
Catalog::of(Connection &connection)
{
	Catalog catalog;
	Rows server = connection.read(
		"SELECT current_user AS role, current_database() AS database,"
		" current_setting('server_version') AS server,"
		" (SELECT extversion FROM pg_extension WHERE extname = 'pgq_ext') AS extension,"
		" coalesce(has_schema_privilege(to_regnamespace('pgq_ext')::oid, 'USAGE'), false) AS "
		"usage");
	catalog.role = server.value(0, "role").value_or("");
	catalog.database = server.value(0, "database").value_or("");
	catalog.server_version = server.value(0, "server").value_or("");
	catalog.extension_version = server.value(0, "extension").value_or("");
	if (catalog.extension_version.empty())
		throw Failure{503, "database",
					  "the extension pgq_ext is not in database \"" + catalog.database + "\"", "",
					  "Run CREATE EXTENSION pgq_ext, or connect to another database."};
	if (server.value(0, "usage") != "t")
		throw Failure{403, "42501",
					  "role \"" + catalog.role + "\" may not look into schema pgq_ext", "",
					  "Make the role a member of pg_monitor, or see the page on operations."};

	/* The columns of all tables and views, and which of them the role may read. */
	Rows columns = connection.read(
		"SELECT c.relname, a.attname, a.atttypid::regtype::text AS type,"
		" has_column_privilege(c.oid, a.attnum, 'SELECT') AS readable"
		" FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
		" WHERE c.relnamespace = 'pgq_ext'::regnamespace AND c.relkind IN ('r', 'v', 'p')"
		" AND NOT c.relispartition AND c.relname !~ '^rights_' AND a.attnum > 0 AND NOT "
		"a.attisdropped"
		" ORDER BY c.relname, a.attnum");
	for (int row = 0; row < columns.size(); row++)
		catalog.relations[*columns.value(row, "relname")].push_back(
			{*columns.value(row, "attname"), *columns.value(row, "type"),
			 columns.value(row, "readable") == "t"});

	/* The functions are in the schema of the extension, which may be any. */
	Rows functions = connection.read(
		"SELECT p.proname, quote_ident(n.nspname) || '.' || quote_ident(p.proname) AS called,"
		" has_function_privilege(p.oid, 'EXECUTE') AS callable"
		" FROM pg_extension e JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass"
		" AND d.refobjid = e.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'"
		" JOIN pg_proc p ON p.oid = d.objid JOIN pg_namespace n ON n.oid = p.pronamespace"
		" WHERE e.extname = 'pgq_ext'");
	for (int row = 0; row < functions.size(); row++)
		catalog.functions[*functions.value(row, "proname")] = {
			*functions.value(row, "called"), functions.value(row, "callable") == "t"};
	return catalog;
}

bool
Catalog::can_read(const std::string &relation, const std::vector<std::string> &wanted) const
{
	auto found = relations.find(relation);
	if (found == relations.end())
		return false;
	return std::all_of(wanted.begin(), wanted.end(), [&](const std::string &name) {
		return std::any_of(found->second.begin(), found->second.end(), [&](const Column &column) {
			return column.name == name && column.is_readable;
		});
	});
}

std::string
Catalog::function(const std::string &name) const
{
	auto found = functions.find(name);
	if (found == functions.end())
		throw Failure{422, "42883",
					  "version " + extension_version + " of the extension has no function " + name};
	return found->second.called;
}

bool
Catalog::can_call(const std::string &name) const
{
	auto found = functions.find(name);
	return found != functions.end() && found->second.is_callable;
}

/* ---- queries ---- */

static std::string
name_in_sql(const std::string &name)
{
	std::string text = "\"";
	for (char c : name)
		text += c == '"' ? "\"\"" : std::string(1, c);
	return text + "\"";
}

std::string
shown_as(const std::string &expression, const std::string &type)
{
	if (type == "timestamp with time zone")
		return "CASE WHEN isfinite(" + expression + ") THEN to_char(" + expression +
			   ", 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') END";
	if (type == "interval")
		return "extract(epoch FROM " + expression + ")::float8";
	if (type == "text")
		return "left(" + expression + ", 10000)";
	if (type == "jsonb")
		return "left(" + expression + "::text, 100000)";
	if (type.ends_with("[]"))
		return "to_json(" + expression + "::text[])";
	if (type == "regclass" || type == "regproc" || type == "regprocedure" || type == "regrole")
		return expression + "::text";
	return expression;
}

std::string
Catalog::list(const std::string &relation, const std::string &alias, Notes &notes,
			  const std::vector<std::string> &only, const std::set<std::string> &without) const
{
	auto found = relations.find(relation);
	if (found == relations.end())
	{
		notes.insert("version " + extension_version + " of the extension has no pgq_ext." +
					 relation);
		return "";
	}
	std::string text, forbidden;
	for (const Column &column : found->second)
	{
		/* A column that the role may not read is named in the note. */
		bool is_wanted =
			only.empty() || std::find(only.begin(), only.end(), column.name) != only.end();
		if (!is_wanted || without.contains(column.name))
			continue;
		std::string &place = column.is_readable ? text : forbidden;
		place += place.empty() ? "" : ", ";
		std::string name = name_in_sql(column.name);
		place += column.is_readable ? shown_as(alias + "." + name, column.type) + " AS " + name
									: column.name;
	}
	if (!forbidden.empty())
		notes.insert("role " + role + " may not read " + (text.empty() ? "" : forbidden + " of ") +
					 "pgq_ext." + relation);
	return text;
}

std::string
limit_of(int most)
{
	return " LIMIT " + std::to_string(most + 1);
}

/* ---- answers ---- */

void
write_members(Json &json, const Rows &rows, int row, int first, int last)
{
	for (int n = first; n < rows.columns() && n <= last; n++)
	{
		json.name(rows.column(n));
		Value value = rows.value(row, n);
		Kind kind = rows.kind(n);
		if (!value)
			json.null();
		else if (kind == Kind::flag)
			json.flag(*value == "t");
		else if (kind == Kind::json)
			json.raw(*value);
		else if (kind == Kind::number && value->find_first_not_of("+-.0123456789e") == value->npos)
			json.raw(*value);
		else if (kind == Kind::number)
			json.null();
		else
			json.text(*value);
	}
}

void
write_rows(Json &json, const Rows &rows, int most)
{
	json.begin_array();
	for (int row = 0; row < rows.size() && row < most; row++)
	{
		json.begin_object();
		write_members(json, rows, row);
		json.end_object();
	}
	json.end_array();
}

} // namespace web
