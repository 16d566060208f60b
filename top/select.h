/* Builds a query of the columns of a view that exist and that the role may read. */
#pragma once

#include "question.h"

namespace top {

/*
 * A column of the answer: its name, which is also the name of a column of the view, and the
 * expression that the query selects under this name.
 */
struct Wanted
{
	const char *column;
	std::string expression;
	bool is_needed = false;
};

/*
 * Return the query; empty if the view or a needed column cannot be read. Adds notes that name the
 * columns that are left out, with the reason.
 */
std::string select_from(Sight &sight, const std::string &view, const std::vector<Wanted> &wanted,
						const std::string &rest = "");

void note(Sight &sight, const std::string &text);

} // namespace top
