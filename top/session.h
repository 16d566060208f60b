/*
 * The conversation with the server: look after look, and actions between them. When the connection
 * is lost it is tried again, for as long as it takes; what was seen last stays.
 */
#pragma once

#include "action.h"
#include "look.h"
#include "rates.h"

namespace top {

class Session
{
public:
	Session(Link &connection, double seconds) : link(connection), interval(seconds) {}

	/* Goes on as far as it can without waiting. is_ready: the socket has something for it. */
	void step(double now, bool is_ready);
	/* When it is to be called again, if the socket does not call before. */
	double next_time(double now) const;

	/* What the next looks are to show; the first of them comes at once. */
	void want(Parts parts);
	void look_now() { look_again = true; }
	/* As soon as nothing else is under way; not at all without a connection. */
	void act(const Action &wanted);
	bool is_acting() const { return action.has_value(); }

	/* Null until the first look is over. */
	const Snapshot *snapshot() const { return seen ? &*seen : nullptr; }
	const Memory &memory() const { return past; }
	/* How old that is. */
	double snapshot_age(double now) const { return now - seen_at; }
	/* Why there is nothing new; empty: all is well. */
	std::string trouble(double now) const;
	/* What became of the last action, once. */
	std::optional<std::string> take_outcome();

private:
	Link &link;
	double interval;
	Parts parts;
	Memory past;
	std::optional<Snapshot> seen;
	double seen_at = 0;

	std::optional<Look> look;
	double look_at = 0;
	/* Not before, but as soon as the look that is under way is over. */
	bool look_again = true;
	std::optional<Action> action;
	/* What the link is doing is the action, not the look. */
	bool action_is_sent = false;
	std::optional<std::string> outcome;

	/* Since when what is under way is, and when to connect again. */
	double busy_since = 0;
	double connect_at = 0;
	bool is_lost = false;
	bool loss_is_noticed = false;

	void notice_loss(double now);
	void give_up_waiting(double now);
	void take_answer();
	void ask_next(double now);
	void ask(const std::string &sql, double now);
	void finish_look(double now);
};

} // namespace top
