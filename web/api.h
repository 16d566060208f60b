/*
 * The answers of the API, without HTTP: each function reads the database with the rights of the
 * caller's role, and returns a JSON document, or throws a Failure.
 */
#pragma once

#include "board.h"
#include "history.h"
#include "options.h"

namespace web {

/* A request for data, and what it is answered from. */
struct Call
{
	const std::map<std::string, std::string> &parameters;
	Line::Use &use;
	const Options &options;
	const History &history;
	Board &board;
	/* the number of the last change of the counters */
	uint64_t change;
	/* a role has logged in; false: the role with which the program was started reads */
	bool is_login;

	/* Return a parameter; empty if it was not given. */
	std::string text(const std::string &name) const;
	/* Return a parameter that is a number in that range. */
	int64_t number(const std::string &name, int64_t missing, int64_t least, int64_t most) const;
	Rows read(const std::string &sql, const Values &values = {}) const
	{
		return use.connection.read(sql, values);
	}
};

/* Return a name (a path without /api/) as a function; nullptr: there is none. */
using Endpoint = std::string (*)(const Call &);
Endpoint endpoint(std::string_view name);

std::string overview(const Call &call);
std::string health_page(const Call &call);
std::string history_of(const Call &call);
std::string queue_page(const Call &call);
std::string jobs_page(const Call &call);
std::string job_page(const Call &call);
std::string dead_page(const Call &call);
std::string schedules_page(const Call &call);
std::string handlers_page(const Call &call);
std::string batches_page(const Call &call);
std::string locks_page(const Call &call);
std::string runs_page(const Call &call);
std::string capacity_page(const Call &call);
std::string rates_page(const Call &call);

/*
 * Describe the session. role: who has logged in, if anybody has; line: returns the connection that
 * reads for the caller.
 */
std::string session_answer(const Options &options, const Value &role, const std::string &csrf,
						   const std::function<Line::Use()> &line);

/* The columns that no list shows: tokens, and with --hide-payload what producers and workers wrote. */
const std::set<std::string> &hidden_columns(const Options &options);

/* Read rows of a relation, and write them as a member; an empty array if the role may not read it. */
void write_list(Json &json, const Call &call, Notes &notes, const std::string &member,
				const std::string &relation, const std::string &rest, const Values &values = {},
				int most = 500, bool writes_more = false);

/* Return the number of a queue; throws a Failure (404) if there is no such queue. */
std::string queue_id_of(const Call &call, const std::string &queue);

/* A place in a list of jobs: the last job of a page, written as text. */
struct Cursor
{
	std::string priority, run_at, job_id;
};
std::string written(const Cursor &cursor);
/* Throws a Failure (400) if the text is no cursor. */
std::optional<Cursor> parsed_cursor(const std::string &text);

/* Whether the text is a number of at most 19 digits, with a sign. */
bool is_integer(std::string_view text);

} // namespace web
