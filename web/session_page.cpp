/* The answer about the session: who has logged in, what the role may do, and the database. */
#include "actions.h"
#include "api.h"

namespace web {

/* Write what only the database knows. Throws a Failure if there is no connection. */
static void
write_database(Json &json, Line::Use &use, bool is_login)
{
	Rows clock = use.connection.read(
		"SELECT " + shown_as("clock_timestamp()", "timestamp with time zone") + " AS now");
	const Catalog &catalog = use.catalog;
	json.name("database").text(std::string_view(catalog.database));
	json.name("reader").text(std::string_view(catalog.role));
	json.name("host").text(std::string_view(use.connection.server_host()));
	json.name("server_version").text(std::string_view(catalog.server_version));
	json.name("extension_version").text(std::string_view(catalog.extension_version));
	json.name("now").text_or_null(clock.value(0, "now"));
	json.name("actions").begin_array();
	if (is_login)
		for (const std::string &action : callable_actions(catalog))
			json.text(std::string_view(action));
	json.end_array();
}

/* The fields of the database are null without a connection to it, and for a caller who must log in first. */
std::string
session_answer(const Options &options, const Value &role, const std::string &csrf,
			   const std::function<Line::Use()> &line)
{
	/* What needs no database comes first. */
	Json head, body;
	head.begin_object().name("role").text_or_null(role);
	head.name("require_login").flag(options.requires_login);
	head.name("readonly").flag(options.is_readonly);
	head.name("hide_payload").flag(options.hides_payload);
	head.name("csrf").text(std::string_view(csrf));
	Value problem;
	if (role || !options.requires_login)
		try
		{
			Line::Use use = line();
			body = head;
			write_database(body, use, role.has_value());
			return body.name("problem").null().end_object().take();
		}
		catch (const Failure &failure)
		{
			problem = failure.message;
		}
	/* Nothing else is known. */
	for (const char *name :
		 {"database", "reader", "host", "server_version", "extension_version", "now"})
		head.name(name).null();
	head.name("actions").begin_array().end_array();
	return head.name("problem").text_or_null(problem).end_object().take();
}

} // namespace web
