/* The command line, similar to psql's. */
#pragma once

#include "link.h"

namespace top {

struct Options
{
	enum class Mode
	{
		terminal,
		once,
		json,
		help,
		version,
	};
	Mode mode = Mode::terminal;
	Address address;
	/*
	 * Seconds between two looks at the server. With --once or --json, a given interval means two
	 * looks, so that there are rates; without an interval there is one look.
	 */
	std::optional<double> interval;
	bool asks_password = false;
	bool never_asks_password = false;
	/* the error in the arguments; empty: no error */
	std::string error;
};

Options parsed_options(int argc, char **argv);

extern const char *const kUsage;

/* Exit statuses. */
constexpr int kAllShown = 0;
constexpr int kBadUse = 1;
constexpr int kNoConnection = 2;
constexpr int kNotAllShown = 3;

} // namespace top
