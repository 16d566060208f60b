/* pgq-web: a page with the queues of pgq_ext. See README.md in this folder. */
#include "server.h"

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>

namespace web {

namespace {

/* Wait in a thread of its own for a signal to end. The mask is inherited by all threads. */
void
stop_on_signal(const sigset_t &signals, std::function<void()> stop)
{
	std::thread([signals, stop = std::move(stop)] {
		int signal;
		sigwait(&signals, &signal);
		stop();
	}).detach();
}

int
run(int argc, char **argv)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	setvbuf(stderr, nullptr, _IOLBF, BUFSIZ);
	Options options = parsed_options(argc, argv);
	if (!options.error.empty())
	{
		fprintf(stderr, "pgq-web: %s\nTry \"pgq-web --help\".\n", options.error.c_str());
		return 1;
	}
	if (options.mode == Options::Mode::help)
		return fputs(kUsage, stdout) < 0;
	if (options.mode == Options::Mode::version)
		return puts("pgq-web (pgq_ext) " PGQ_VERSION) < 0;

	/* libpq would send these to the server, which prefers them to the settings of connection.cpp. */
	for (const char *name : {"PGTZ", "PGDATESTYLE", "PGGEQO"})
		unsetenv(name);

	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, nullptr);
	signal(SIGPIPE, SIG_IGN);
	return serve(options, [&](int port, std::function<void()> stop) {
		stop_on_signal(signals, std::move(stop));
		bool is_ipv6 = options.listen_host.find(':') != std::string::npos;
		printf("pgq-web: http://%s:%d%s/\n",
			   (is_ipv6 ? "[" + options.listen_host + "]" : options.listen_host).c_str(), port,
			   options.prefix.c_str());
		fflush(stdout);
	});
}

} // namespace

} // namespace web

int
main(int argc, char **argv)
{
	return web::run(argc, argv);
}
