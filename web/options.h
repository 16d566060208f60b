/* The command line. */
#pragma once

#include "connection.h"

#include <set>

namespace web {

struct Options
{
	enum class Mode
	{
		serve,
		help,
		version,
	};
	Mode mode = Mode::serve;
	Address address;
	std::string listen_host = "127.0.0.1";
	int listen_port = 8080;
	/* Empty, or begins with a slash and does not end with one. */
	std::string prefix;
	std::vector<std::string> hosts;
	bool is_readonly = false, hides_payload = false, requires_login = false;
	/* addresses of proxies, whose header X-Forwarded-For tells the address of the caller */
	std::set<std::string> proxies;
	/* the error in the arguments; empty: no error */
	std::string error;
};

Options parsed_options(int argc, char **argv);

extern const char *const kUsage;

} // namespace web
