#include "actions.h"

#include <cstdio>

namespace web {

namespace {

/* An argument: its name in the request, its SQL type, and its name in the function. */
struct Argument
{
	const char *name, *type, *parameter;
	bool is_needed = false, is_secret = false;
};

struct Action
{
	const char *name, *function;
	std::vector<Argument> arguments;
	/* The statement; empty: SELECT function(parameter => $1, ...). FUNCTION stands for the function. */
	const char *sql = "";
};

constexpr Argument kQueue = {"queue", "text", "queue", true},
				   kId = {"id", "bigint", "job_id", true},
				   kSchedule = {"schedule", "text", "schedule", true},
				   kBatch = {"batch", "bigint", "batch", true},
				   kDelay = {"delay", "interval", "delay"},
				   kGroup = {"group_key", "text", "group_key"},
				   kPriority = {"priority", "int", "priority"},
				   kRunAt = {"run_at", "timestamptz", "run_at"};

const Action kActions[] = {
	{"pause_queue", "pgq_pause_queue", {kQueue}},
	{"resume_queue", "pgq_resume_queue", {kQueue}},
	{"purge_queue", "pgq_purge_queue", {kQueue}},
	{"redrive",
	 "pgq_redrive",
	 {kQueue,
	  {"max_jobs", "bigint", "max_jobs"},
	  {"error_like", "text", "error_like"},
	  kGroup,
	  {"died_since", "timestamptz", "died_since"},
	  {"died_before", "timestamptz", "died_before"}}},
	{"retry", "pgq_retry", {kId, kDelay}},
	{"cancel", "pgq_cancel", {kId}},
	/* The lease comes from the function that shows it, if the role may see it. */
	{"release",
	 "pgq_release",
	 {kId, kDelay},
	 "SELECT FUNCTION(l.job_id, l.lease, coalesce($2::interval, '0')) AS result FROM "
	 "pgq_ext.lease_of($1::bigint) l"},
	{"run_at", "pgq_update", {kId, {"run_at", "timestamptz", "run_at", true}}},
	{"priority", "pgq_update", {kId, {"priority", "int", "priority", true}}},
	{"run_again", "pgq_run_again", {kId}},
	{"enqueue",
	 "pgq_enqueue",
	 {kQueue,
	  {"payload", "jsonb", "payload", true, true},
	  kPriority,
	  kDelay,
	  kRunAt,
	  kGroup,
	  {"unique_key", "text", "unique_key"},
	  {"headers", "jsonb", "headers", false, true},
	  {"max_attempts", "int", "max_attempts"}}},
	/* A role that may not read the payload would enqueue another one: no row, and an error. */
	{"run_schedule",
	 "pgq_enqueue_many",
	 {kSchedule},
	 "SELECT FUNCTION(s.queue, jsonb_build_array(coalesce(s.options, '{}') || "
	 "jsonb_build_object('payload', s.payload)))"
	 " AS result FROM pgq_ext.schedule s WHERE s.schedule = $1::text"
	 " AND pgq_ext.may_read('schedule', 'payload') AND pgq_ext.may_read('schedule', 'options')"},
	{"pause_schedule", "pgq_pause_schedule", {kSchedule}},
	{"resume_schedule", "pgq_resume_schedule", {kSchedule}},
	{"pause_handler", "pgq_pause_handler", {kQueue}},
	{"resume_handler", "pgq_resume_handler", {kQueue}},
	{"close_batch", "pgq_close_batch", {kBatch}},
	{"cancel_batch", "pgq_cancel_batch", {kBatch}},
};

Value
member(const Flat &request, const std::string &name)
{
	auto found = request.find(name);
	return found == request.end() ? Value() : found->second;
}

const Action &
action_of(const Flat &request)
{
	Value name = member(request, "action");
	for (const Action &action : kActions)
		if (name == action.name)
			return action;
	throw Failure{400, "argument",
				  "there is no action \"" + one_line(name.value_or(""), 100) + "\""};
}

/* Refuse arguments that the action does not have, so that a misspelt one is not ignored. */
void
check_names(const Flat &request, const Action &action)
{
	for (auto &[name, value] : request)
	{
		bool is_known =
			name == "action" || (name == "confirm" && std::string(action.name) == "purge_queue");
		for (const Argument &argument : action.arguments)
			is_known = is_known || name == argument.name;
		if (!is_known)
			throw Failure{400, "argument",
						  std::string(action.name) + " has no argument \"" + one_line(name, 100) +
							  "\""};
	}
	if (std::string(action.name) == "purge_queue" &&
		(!member(request, "confirm") || member(request, "confirm") != member(request, "queue")))
		throw Failure{400, "confirm", "type the name of the queue to purge it"};
}

} // namespace

/* Optional arguments that are missing are left out, so that the defaults of the function hold. */
Statement
statement_of(const Flat &request, const Catalog &catalog)
{
	const Action &action = action_of(request);
	check_names(request, action);
	std::string function = catalog.function(action.function), sql = action.sql, list;
	bool has_own_sql = !sql.empty();
	Statement statement;
	statement.summary = action.name;
	for (const Argument &argument : action.arguments)
	{
		Value value = member(request, argument.name);
		if (argument.is_needed && !value)
			throw Failure{400, "argument", std::string(action.name) + " needs " + argument.name};
		if (!value && !has_own_sql)
			continue;
		statement.values.push_back(value);
		list += (list.empty() ? "" : ", ") + std::string(argument.parameter) + " => $" +
				std::to_string(statement.values.size()) + "::" + argument.type;
		if (value && !argument.is_secret)
			statement.summary +=
				std::string(" ") + argument.name + "=" + json_text(one_line(*value, 200));
	}
	statement.sql = has_own_sql ? sql.replace(sql.find("FUNCTION"), 8, function)
								: "SELECT " + function + "(" + list + ") AS result";
	return statement;
}

std::vector<std::string>
callable_actions(const Catalog &catalog)
{
	std::vector<std::string> names;
	for (const Action &action : kActions)
		if (catalog.can_call(action.function))
			names.emplace_back(action.name);
	return names;
}

static void
log_action(const Statement &statement, const std::string &role, const std::string &from,
		   const std::string &outcome)
{
	fprintf(stderr, "pgq-web: action role=%s from=%s %s: %s\n",
			json_text(one_line(role, 200)).c_str(), one_line(from, 100).c_str(),
			statement.summary.c_str(), outcome.c_str());
}

std::string
run_action(const Flat &request, Line::Use &use, const std::string &role, const std::string &from)
{
	Statement statement = statement_of(request, use.catalog);
	try
	{
		Rows rows = use.connection.act(statement.sql, statement.values);
		if (rows.size() == 0 && member(request, "action") == "run_schedule")
			throw Failure{422, "42704",
						  "schedule does not exist, or the role may not read its payload", "",
						  "The role needs SELECT on the columns payload and options of "
						  "pgq_ext.schedule."};
		Json json;
		json.begin_object().name("result");
		Value value = rows.value(0, "result");
		/* A function that returns nothing gives an empty text. */
		if (!value || value->empty())
			json.null();
		else if (rows.kind(0) == Kind::flag)
			json.flag(*value == "t");
		else
			json.text(std::string_view(*value));
		json.end_object();
		log_action(statement, role, from,
				   "done" + (value && !value->empty()
								 ? ", result " + json_text(one_line(*value, 100))
								 : ""));
		return json.take();
	}
	catch (Failure &failure)
	{
		log_action(statement, role, from,
				   "failed, " + one_line(failure.code, 20) + " " + one_line(failure.message, 500));
		if (failure.status == 503)
			failure.hint = "Look whether the action was done before you repeat it.";
		throw;
	}
}

} // namespace web
