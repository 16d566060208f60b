/* An answer that is an error: thrown where it is found, and written by the HTTP layer. */
#pragma once

#include <string>

namespace web {

struct Failure
{
	int status;
	/* SQLSTATE, or one of the words of README.md */
	std::string code;
	std::string message;
	std::string detail = {}, hint = {};
	/* seconds for the header Retry-After; 0: no such header */
	int retry_after = 0;
};

} // namespace web
