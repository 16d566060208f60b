/*
 * The conversation with the server: repeated looks, and actions between them. If the connection is
 * lost, the session connects again, for as long as it takes, and keeps the last snapshot.
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

	/*
	 * Do everything that is possible without waiting. is_ready: the socket is ready, see
	 * Link::step().
	 */
	void step(double now, bool is_ready);
	/* Return when to call step() again if the socket is not ready before. */
	double next_time(double now) const;

	/*
	 * Choose the parts of the next looks. If the last looks did not read one of these parts, look
	 * at once.
	 */
	void want(Parts parts);
	void look_now() { look_again = true; }
	/*
	 * Run the action as soon as no other statement is under way. Without a connection, the action
	 * is dropped, and take_outcome() says so.
	 */
	void act(const Action &wanted);
	bool is_acting() const { return action.has_value(); }

	/* Return the last snapshot; nullptr before the first look has ended. */
	const Snapshot *snapshot() const { return seen ? &*seen : nullptr; }
	const Memory &memory() const { return past; }
	/* Return the age of the snapshot in seconds. */
	double snapshot_age(double now) const { return now - seen_at; }
	/* Return why there is no new data; empty: there is new data. */
	std::string trouble(double now) const;
	/* Return the outcome of the last action, once. */
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
	/* start a look as soon as the present look has ended */
	bool look_again = true;
	std::optional<Action> action;
	/* the statement under way is the action, not a query of a look */
	bool action_is_sent = false;
	std::optional<std::string> outcome;

	/* when the present statement or connection attempt began (seconds, clock.h) */
	double busy_since = 0;
	/* when to connect again (seconds, clock.h) */
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
