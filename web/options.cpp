#include "options.h"

#include <charconv>
#include <cstring>
#include <getopt.h>

namespace web {

const char *const kUsage =
	"pgq-web serves a page with the queues of pgq_ext.\n"
	"\n"
	"Usage:\n"
	"  pgq-web [OPTION]... [DBNAME]\n"
	"\n"
	"Options:\n"
	"      --listen=ADDRESS:PORT  where to listen (default: 127.0.0.1:8080; port 0: any free "
	"port)\n"
	"      --prefix=/PATH         path before all addresses, for use behind a proxy\n"
	"      --host=NAME[:PORT]     name by which browsers call the page; may be repeated\n"
	"      --require-login        show nothing to callers that have not logged in\n"
	"      --trusted-proxy=IP     address of a proxy whose X-Forwarded-For is believed; may be "
	"repeated\n"
	"      --read-only            offer no login and no action\n"
	"      --hide-payload         show no payload, header, result and metadata\n"
	"  -V, --version              print the version, and end\n"
	"  -?, --help                 print this, and end\n"
	"\n"
	"Connection options (as psql has them, and the environment variables of libpq):\n"
	"  -h HOSTNAME                database server host or socket directory\n"
	"  -p PORT                    database server port\n"
	"  -U USERNAME                database user name\n"
	"  -d DBNAME                  database name, or a connection string\n"
	"\n"
	"Without --require-login, all who can reach the page read what this role may read.\n"
	"A caller who logs in as another role reads and does what that role may.\n";

namespace {

enum LongOption : int
{
	kListen = 0x100,
	kPrefix,
	kHost,
	kReadOnly,
	kHidePayload,
	kRequireLogin,
	kTrustedProxy,
	kHelpOption,
};

constexpr option kLongOptions[] = {
	{"listen", required_argument, nullptr, kListen},
	{"prefix", required_argument, nullptr, kPrefix},
	{"host", required_argument, nullptr, kHost},
	{"read-only", no_argument, nullptr, kReadOnly},
	{"hide-payload", no_argument, nullptr, kHidePayload},
	{"require-login", no_argument, nullptr, kRequireLogin},
	{"trusted-proxy", required_argument, nullptr, kTrustedProxy},
	{"dbname", required_argument, nullptr, 'd'},
	{"port", required_argument, nullptr, 'p'},
	{"username", required_argument, nullptr, 'U'},
	{"version", no_argument, nullptr, 'V'},
	{"help", no_argument, nullptr, kHelpOption},
	{nullptr, 0, nullptr, 0},
};

/* Take ADDRESS:PORT; an IPv6 address is in brackets. */
void
take_listen(Options &options, std::string text)
{
	size_t colon = text.rfind(':');
	std::string port = colon == text.npos ? "" : text.substr(colon + 1);
	std::string host = text.substr(0, colon);
	auto [end, error] =
		std::from_chars(port.data(), port.data() + port.size(), options.listen_port);
	bool is_number = error == std::errc() && end == port.data() + port.size();
	if (host.size() > 2 && host.front() == '[' && host.back() == ']')
		host = host.substr(1, host.size() - 2);
	else if (host.find(':') != host.npos)
		is_number = false;
	if (host.empty() || !is_number || options.listen_port < 0 || options.listen_port > 65535)
		options.error = "--listen needs ADDRESS:PORT, not \"" + text + "\"";
	options.listen_host = host;
}

void
take_prefix(Options &options, std::string text)
{
	while (text.ends_with('/'))
		text.pop_back();
	constexpr const char *kAllowed =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/";
	if (!text.empty() &&
		(text[0] != '/' || text.starts_with("//") || text.find_first_not_of(kAllowed) != text.npos))
		options.error = "--prefix needs a path such as /queues, not \"" + text + "\"";
	options.prefix = text;
}

void
take_option(Options &options, int option)
{
	switch (option)
	{
		/* Each option sets one field; the last one counts. */
		case kListen:
			return take_listen(options, optarg);
		case kPrefix:
			return take_prefix(options, optarg);
		case kHost:
			options.hosts.push_back(optarg);
			break;
		case kReadOnly:
			options.is_readonly = true;
			break;
		case kHidePayload:
			options.hides_payload = true;
			break;
		case kRequireLogin:
			options.requires_login = true;
			break;
		case kTrustedProxy:
			options.proxies.insert(optarg);
			break;
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
	}
}

} // namespace

Options
parsed_options(int argc, char **argv)
{
	Options options;
	opterr = 0;
	optind = 0;
	int option;
	while ((option = getopt_long(argc, argv, ":h:p:U:d:V", kLongOptions, nullptr)) != -1)
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
	if (options.address.database.empty() && optind < argc)
		options.address.database = argv[optind++];
	if (optind < argc)
		options.error =
			std::string("too many arguments, the first one is \"") + argv[optind] + "\"";
	else if (options.requires_login && options.is_readonly)
		options.error = "--require-login and --read-only together would show nothing to anybody";
	return options;
}

} // namespace web
