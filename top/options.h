/* The command line, as psql has it. */
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
	/* Between two looks. With --once and --json: nothing, one look; otherwise two, for the rates. */
	std::optional<double> interval;
	bool asks_password = false;
	bool never_asks_password = false;
	/* Not empty: what is wrong with the arguments. */
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
