/*
 * Actions: each one is one call of a function of the extension, with parameters, under the rights of
 * the role that has logged in.
 */
#pragma once

#include "json.h"
#include "line.h"

namespace web {

/* A statement with its parameters, and the action in words for the log. */
struct Statement
{
	std::string sql;
	Values values;
	/* Without payload and headers. */
	std::string summary;
};

/*
 * Return the statement of a request. Throws a Failure (400) if the action or an argument is unknown
 * or missing. function: the name of a function with its schema.
 */
Statement statement_of(const Flat &request, const Catalog &catalog);

/* Return the names of the actions whose function the role may call. */
std::vector<std::string> callable_actions(const Catalog &catalog);

/* Run an action, write it to the log, and return the answer. */
std::string run_action(const Flat &request, Line::Use &use, const std::string &role,
					   const std::string &from);

} // namespace web
