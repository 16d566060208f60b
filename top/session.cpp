#include "session.h"

#include <utility>

namespace top {

namespace {

constexpr double kReconnectAfter = 1;
constexpr double kPatienceForAction = kSecondsForAction + 10;

} // namespace

void
Session::step(double now, bool is_ready)
{
	Link::State before = link.state();
	if (is_ready)
		link.step();
	if (before == Link::State::busy && link.state() == Link::State::idle)
		take_answer();
	give_up_waiting(now);
	if (link.state() == Link::State::down)
	{
		if (!loss_is_noticed)
			notice_loss(now);
		if (now < connect_at)
			return;
		loss_is_noticed = false;
		busy_since = now;
		link.start();
	}
	else if (link.state() == Link::State::idle)
		ask_next(now);
}

double
Session::next_time(double now) const
{
	switch (link.state())
	{
		case Link::State::down:
			return connect_at;
		case Link::State::idle:
			return look_again ? now : look_at;
		default:
			/* Wake up once a second while waiting, to update the clock on the screen. */
			return now + 1;
	}
}

/* Note that the connection was lost or could not be made, and when to connect again. */
void
Session::notice_loss(double now)
{
	loss_is_noticed = is_lost = true;
	connect_at = now + kReconnectAfter;
	look.reset();
	if (action)
		outcome = std::string(name_of(action->deed).verb) + ": the connection was lost" +
				  (action_is_sent ? "; look whether it was done" : ", it was not done");
	action.reset();
	action_is_sent = false;
}

/*
 * Give up a statement that takes too long: a host that is down neither answers nor closes the
 * connection.
 */
void
Session::give_up_waiting(double now)
{
	bool is_waiting = link.state() == Link::State::connecting || link.state() == Link::State::busy;
	double patience = action_is_sent ? kPatienceForAction : kPatience;
	if (is_waiting && now - busy_since > patience)
		link.give_up("no answer for " + std::to_string(static_cast<int>(patience)) + " s");
}

void
Session::take_answer()
{
	Answer answer = link.take_answer();
	if (action_is_sent)
	{
		outcome = outcome_of(*action, answer);
		action.reset();
		action_is_sent = false;
		/* Look at once, to show the effect of the action. */
		look.reset();
		look_again = true;
	}
	else if (look)
		look->take(answer);
}

/* Send the action, if there is one; otherwise the next question. */
void
Session::ask_next(double now)
{
	is_lost = false;
	if (action)
	{
		action_is_sent = true;
		return ask(statement_of(*action, *seen), now);
	}
	if (!look && (look_again || now >= look_at))
	{
		look_again = false;
		look.emplace(parts);
	}
	if (!look)
		return;
	std::string sql = look->next();
	if (sql.empty())
		finish_look(now);
	else
		ask(sql, now);
}

void
Session::ask(const std::string &sql, double now)
{
	busy_since = now;
	link.ask(sql);
}

void
Session::finish_look(double now)
{
	Snapshot snapshot = look->take_snapshot();
	look.reset();
	past.add(snapshot);
	seen = std::move(snapshot);
	seen_at = now;
	look_at = now + interval;
}

void
Session::want(Parts wanted)
{
	look_again = look_again || (wanted.leases && !parts.leases) ||
				 (wanted.dead_letters && !parts.dead_letters);
	parts = wanted;
}

void
Session::act(const Action &wanted)
{
	if (seen && !is_lost)
		action = wanted;
	else
		outcome = std::string(name_of(wanted.deed).verb) + ": not done, there is no connection";
}

std::string
Session::trouble(double now) const
{
	if (!is_lost)
		return "";
	/* The age comes first, since the end of the line may be cut. */
	return (seen ? "this is " + age(snapshot_age(now)) + " old; " : "") +
		   "trying again: " + link.trouble();
}

std::optional<std::string>
Session::take_outcome()
{
	return std::exchange(outcome, std::nullopt);
}

} // namespace top
