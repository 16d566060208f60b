/* pgq-top: shows the queues of pgq_ext, in a terminal or once. See README.md in this folder. */
#include "app.h"
#include "password.h"

#include <clocale>
#include <cstdio>
#include <cstring>
#include <langinfo.h>

namespace top {

namespace {

constexpr double kSecondsForConnecting = 30;

/*
 * Connect. Like psql, ask the user for a password if the server wants a password and libpq has
 * found none.
 */
bool
connect(Link &link, const Options &options)
{
	bool may_ask = !options.never_asks_password;
	bool is_asked = options.asks_password;
	for (;;)
	{
		if (is_asked)
		{
			std::optional<std::string> password = asked_password("Password: ");
			if (!password)
				return false;
			link.set_password(*password);
			may_ask = false;
		}
		link.start();
		link.wait(kSecondsForConnecting);
		if (link.state() == Link::State::connecting)
			link.give_up("the server does not answer");
		if (link.state() == Link::State::idle)
			return true;
		is_asked = may_ask && link.needs_password();
		if (!is_asked)
			return false;
	}
}

int
run(int argc, char **argv)
{
	setlocale(LC_CTYPE, "");
	bool is_unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	Charset charset = is_unicode ? Charset::unicode : Charset::ascii;

	Options options = parsed_options(argc, argv);
	if (!options.error.empty())
	{
		fprintf(stderr, "pgq-top: %s\nTry \"pgq-top --help\".\n", options.error.c_str());
		return kBadUse;
	}
	if (options.mode == Options::Mode::help)
		return fputs(kUsage, stdout) < 0;
	if (options.mode == Options::Mode::version)
		return puts("pgq-top (pgq_ext) " PGQ_VERSION) < 0;

	Link link(options.address);
	if (!connect(link, options))
	{
		fprintf(stderr, "pgq-top: %s\n", shown(link.trouble(), charset).c_str());
		return kNoConnection;
	}
	return options.mode == Options::Mode::terminal ? watch(link, options, charset)
												   : print_once(link, options, charset);
}

} // namespace

} // namespace top

int
main(int argc, char **argv)
{
	return top::run(argc, argv);
}
