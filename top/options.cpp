#include "options.h"

#include <charconv>
#include <cstring>
#include <getopt.h>

namespace top {

const char *const kUsage =
	"pgq-top shows the queues of pgq_ext in a terminal.\n"
	"\n"
	"Usage:\n"
	"  pgq-top [OPTION]... [DBNAME [USERNAME]]\n"
	"\n"
	"Options:\n"
	"  -n, --interval=SECONDS   time between two looks, 0.1 to 3600 (default: 2)\n"
	"      --once               look once, print tables as plain text, and end\n"
	"      --json               look once, print one JSON document, and end\n"
	"                           (with -n: look twice, which gives rates)\n"
	"  -V, --version            print the version, and end\n"
	"  -?, --help               print this, and end\n"
	"\n"
	"Connection options (as psql has them, and the environment variables of libpq):\n"
	"  -h, --host=HOSTNAME      database server host or socket directory\n"
	"  -p, --port=PORT          database server port\n"
	"  -U, --username=USERNAME  database user name\n"
	"  -d, --dbname=DBNAME      database name, or a connection string\n"
	"  -w, --no-password        never prompt for password\n"
	"  -W, --password           force password prompt\n"
	"\n"
	"Exit status: 0 all was shown; 1 it was called in a wrong way; 2 no connection to the server;\n"
	"3 (--once, --json) something could not be read, which the output names.\n";

namespace {

enum LongOption : int
{
	kOnce = 0x100,
	kJson,
	kHelpOption,
};

constexpr option kLongOptions[] = {
	{"interval", required_argument, nullptr, 'n'}, {"once", no_argument, nullptr, kOnce},
	{"json", no_argument, nullptr, kJson},		   {"version", no_argument, nullptr, 'V'},
	{"help", no_argument, nullptr, kHelpOption},   {"host", required_argument, nullptr, 'h'},
	{"port", required_argument, nullptr, 'p'},	   {"username", required_argument, nullptr, 'U'},
	{"dbname", required_argument, nullptr, 'd'},   {"no-password", no_argument, nullptr, 'w'},
	{"password", no_argument, nullptr, 'W'},	   {nullptr, 0, nullptr, 0},
};

void
take_interval(Options &options, const char *text)
{
	double seconds = 0;
	auto [end, error] = std::from_chars(text, text + strlen(text), seconds);
	if (error != std::errc() || *end != '\0' || !(seconds >= 0.1 && seconds <= 3600))
		options.error = std::string("the interval is 0.1 to 3600 seconds, not \"") + text + "\"";
	options.interval = seconds;
}

void
take_mode(Options &options, Options::Mode mode)
{
	bool is_other = options.mode != Options::Mode::terminal && options.mode != mode;
	if (is_other)
		options.error = "--once and --json exclude each other";
	options.mode = mode;
}

void
take_option(Options &options, int option)
{
	/* If an option is given twice, the last value counts, as in psql. */
	switch (option)
	{
		case 'n':
			return take_interval(options, optarg);
		case kOnce:
			return take_mode(options, Options::Mode::once);
		case kJson:
			return take_mode(options, Options::Mode::json);
		case 'h':
			options.address.host = optarg;
			break;
		case 'p':
			options.address.port = optarg;
			break;
		case 'U':
			options.address.user = optarg;
			break;
		case 'd':
			options.address.database = optarg;
			break;
		case 'w':
			options.never_asks_password = true;
			break;
		case 'W':
			options.asks_password = true;
	}
}

/*
 * Use the arguments that are not options: the first one is the database unless -d has given it, the
 * next one the user unless -U has given it.
 */
void
take_words(Options &options, int argc, char **argv)
{
	for (std::string *place : {&options.address.database, &options.address.user})
		if (place->empty() && optind < argc)
			*place = argv[optind++];
	if (optind < argc)
		options.error =
			std::string("too many arguments, the first one is \"") + argv[optind] + "\"";
}

} // namespace

Options
parsed_options(int argc, char **argv)
{
	Options options;
	opterr = 0;
	optind = 0;
	int option;
	while ((option = getopt_long(argc, argv, ":n:h:p:U:d:wWV", kLongOptions, nullptr)) != -1)
	{
		/* getopt returns '?' for an unknown option; "-?" itself asks for help. */
		bool is_help =
			option == kHelpOption || (option == '?' && strcmp(argv[optind - 1], "-?") == 0);
		if (option == 'V' || is_help)
		{
			options.mode = is_help ? Options::Mode::help : Options::Mode::version;
			options.error.clear();
			return options;
		}
		if (option == '?' || option == ':')
			options.error = std::string(option == ':' ? "an argument is missing after \""
													  : "there is no option \"") +
							argv[optind - 1] + "\"";
		else
			take_option(options, option);
		if (!options.error.empty())
			return options;
	}
	take_words(options, argc, argv);
	if (options.asks_password && options.never_asks_password)
		options.error = "-w and -W exclude each other";
	return options;
}

} // namespace top
