/*
 * The main loop: draw the screen, then wait for a key, for data of the server or for the time of
 * the next step.
 */
#include "app.h"
#include "session.h"
#include "terminal.h"

#include "shared/clock.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace top {

namespace {

constexpr double kInterval = 2;

volatile sig_atomic_t was_told_to_end = 0;

void
note_end(int)
{
	was_told_to_end = 1;
}

/*
 * Block signals except during the wait: otherwise a signal could be missed that comes between the
 * check of its flag and the wait. ncurses handles SIGWINCH, and turns the signal into a key.
 */
sigset_t
hold_signals()
{
	struct sigaction end = {};
	end.sa_handler = note_end;
	sigset_t held, usual;
	sigemptyset(&held);
	for (int signal : {SIGINT, SIGTERM, SIGHUP})
	{
		sigaction(signal, &end, nullptr);
		sigaddset(&held, signal);
	}
	sigaddset(&held, SIGWINCH);
	sigprocmask(SIG_BLOCK, &held, &usual);
	return usual;
}

struct Ready
{
	bool link;
	bool terminal_is_gone;
};

Ready
wait_for_something(const Link &link, double seconds, const sigset_t &signals)
{
	pollfd wanted[2] = {{STDIN_FILENO, POLLIN, 0}, {link.socket(), link.events(), 0}};
	double limited = std::clamp(seconds, 0.0, 3600.0);
	timespec timeout = {static_cast<time_t>(limited), 0};
	timeout.tv_nsec = static_cast<long>((limited - static_cast<double>(timeout.tv_sec)) * 1e9);
	if (ppoll(wanted, 2, &timeout, &signals) <= 0)
		return {false, false};
	return {wanted[1].revents != 0, (wanted[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0};
}

class Watch
{
public:
	Watch(Link &connection, double seconds, Charset shown_in)
		: link(connection), interval(seconds), charset(shown_in), session(link, seconds)
	{}

	void draw(Terminal &terminal)
	{
		double now = shared::steady_now();
		Scene scene = {session.snapshot(),	nullptr, link.name(), session.trouble(now), interval,
					   session.is_acting(), charset};
		table = {};
		if (scene.snapshot != nullptr)
			table = current_table(state, *scene.snapshot, session.memory(), {charset, true});
		scene.table = &table;
		terminal.paint(frame_of(state, scene, terminal.size()));
	}

	void take_keys(Terminal &terminal)
	{
		for (int key; (key = terminal.read_key()) != kKeyNone;)
		{
			press(state, key, session.snapshot(), table, rows_of(terminal.size()));
			/* Draw before reading the next key: the user answers the question on the screen. */
			draw(terminal);
		}
		session.want({state.screen == Screen::jobs, state.screen == Screen::dead_letters});
		if (std::exchange(state.wants_look, false))
			session.look_now();
		if (auto action = std::exchange(state.confirmed, std::nullopt))
			session.act(*action);
	}

	void go_on(bool is_ready)
	{
		session.step(shared::steady_now(), is_ready);
		if (auto outcome = session.take_outcome())
			state.message = *outcome;
	}

	bool is_over() const { return state.wants_end || was_told_to_end; }
	/* While there is no new data, wake up once a second to show how old the data is. */
	double wait_time() const
	{
		double now = shared::steady_now();
		double seconds = session.next_time(now) - now;
		return session.trouble(now).empty() ? seconds : std::min(seconds, 1.0);
	}

private:
	Link &link;
	double interval;
	Charset charset;
	Session session;
	State state;
	Table table;
};

} // namespace

int
watch(Link &link, const Options &options, Charset charset)
{
	Terminal terminal;
	std::string why;
	if (!terminal.open(why))
	{
		fprintf(stderr, "pgq-top: %s\n", why.c_str());
		return kBadUse;
	}
	sigset_t usual = hold_signals();
	Watch watch(link, options.interval.value_or(kInterval), charset);
	Ready ready = {false, false};
	while (!watch.is_over() && !ready.terminal_is_gone)
	{
		watch.go_on(ready.link);
		watch.draw(terminal);
		ready = wait_for_something(link, watch.wait_time(), usual);
		watch.take_keys(terminal);
	}
	return kAllShown;
}

} // namespace top
