/* Of a view, what of it there is and the role may read. */
#pragma once

#include "question.h"

namespace top {

/* A column of an answer: of that name, and made of the view's column by that expression. */
struct Wanted
{
	const char *column;
	std::string expression;
	bool is_needed = false;
};

/* Empty: nothing of the view can be read, and a note says why; so it does of columns. */
std::string select_from(Sight &sight, const std::string &view, const std::vector<Wanted> &wanted,
						const std::string &rest = "");

void note(Sight &sight, const std::string &text);

} // namespace top
