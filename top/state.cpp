#include "state.h"

#include <algorithm>

namespace top {

State::State()
{
	auto sorted = [&](Screen screen, size_t column, bool descending) {
		chosen[static_cast<size_t>(screen)] = {column, descending, "", 0, 0};
	};
	sorted(Screen::queues, 0, false);
	/*
	 * Initial order: the job longest in work, the latest dead letter, failed checks, handlers that
	 * cannot run, or batches whose callback fails come first.
	 */
	sorted(Screen::jobs, 3, true);
	sorted(Screen::dead_letters, 2, false);
	sorted(Screen::health, 0, false);
	sorted(Screen::handlers, 1, false);
	sorted(Screen::batches, 1, false);
}

std::vector<Deed>
deeds_of(Screen screen)
{
	switch (screen)
	{
		case Screen::queues:
			return {Deed::pause, Deed::resume, Deed::redrive};
		case Screen::jobs:
			return {Deed::cancel};
		case Screen::dead_letters:
			return {Deed::retry, Deed::redrive, Deed::cancel};
		default:
			return {};
	}
}

static Table
table_of(Screen screen, const Snapshot &snapshot, const Memory &memory, Form form)
{
	switch (screen)
	{
		case Screen::queues:
			return queue_table(snapshot, memory, form);
		case Screen::jobs:
			return job_table(snapshot, form);
		case Screen::dead_letters:
			return dead_letter_table(snapshot, form);
		case Screen::health:
			return health_table(snapshot, form);
		case Screen::handlers:
			return handler_table(snapshot, form);
		case Screen::batches:
			return batch_table(snapshot, form);
		default:
			return {};
	}
}

Table
current_table(State &state, const Snapshot &snapshot, const Memory &memory, Form form)
{
	Table table = table_of(state.screen, snapshot, memory, form);
	if (table.columns.empty())
		return table;
	Chosen &chosen = state.here();
	sort(table, chosen.sort_column, chosen.is_descending);
	table.columns[chosen.sort_column].title += chosen.is_descending ? "-" : "+";
	/* If the chosen row is gone, choose the row in its place. */
	auto row = std::find_if(table.rows.begin(), table.rows.end(),
							[&](const Row &one) { return one.key == chosen.key; });
	if (row != table.rows.end())
		chosen.row = static_cast<size_t>(row - table.rows.begin());
	else
		chosen.row = table.rows.empty() ? 0 : std::min(chosen.row, table.rows.size() - 1);
	chosen.key = table.rows.empty() ? "" : table.rows[chosen.row].key;
	return table;
}

/* ---- keys ---- */

static void
move_to(Chosen &chosen, const Table &table, std::ptrdiff_t row)
{
	auto last = static_cast<std::ptrdiff_t>(table.rows.size()) - 1;
	if (last < 0)
		return;
	chosen.row = static_cast<size_t>(std::clamp<std::ptrdiff_t>(row, 0, last));
	chosen.key = table.rows[chosen.row].key;
}

static bool
move(State &state, int key, const Table &table, size_t page)
{
	Chosen &chosen = state.here();
	auto at = static_cast<std::ptrdiff_t>(chosen.row);
	auto far = static_cast<std::ptrdiff_t>(std::max<size_t>(page, 1));
	switch (key)
	{
		case kKeyUp:
			return move_to(chosen, table, at - 1), true;
		case kKeyDown:
			return move_to(chosen, table, at + 1), true;
		case kKeyPageUp:
			return move_to(chosen, table, at - far), true;
		case kKeyPageDown:
			return move_to(chosen, table, at + far), true;
		case kKeyHome:
			return move_to(chosen, table, 0), true;
		case kKeyEnd:
			return move_to(chosen, table, static_cast<std::ptrdiff_t>(table.rows.size())), true;
		default:
			return false;
	}
}

static bool
sort_otherwise(State &state, int key, const Table &table)
{
	Chosen &chosen = state.here();
	if (table.columns.empty())
		return false;
	size_t n = table.columns.size();
	if (key == '<')
		chosen.sort_column = (chosen.sort_column + n - 1) % n;
	else if (key == '>')
		chosen.sort_column = (chosen.sort_column + 1) % n;
	else if (key == 'i')
		chosen.is_descending = !chosen.is_descending;
	else
		return false;
	return true;
}

static bool
turn_to(State &state, int key)
{
	auto number = static_cast<size_t>(state.screen);
	if (key >= '1' && key <= '6')
		number = static_cast<size_t>(key - '1');
	else if (key == kKeyTab)
		number = (number + 1) % kScreens;
	else if (key == 'h' || key == '?')
		number = static_cast<size_t>(Screen::help);
	else
		return false;
	state.screen = static_cast<Screen>(number);
	return true;
}

static std::optional<Target>
job_target(const Snapshot &snapshot, const std::string &key)
{
	for (const Lease &lease : snapshot.leases.value_or(std::vector<Lease>()))
		if (std::to_string(lease.job_id) == key)
			return Target{
				.queue = lease.queue, .job_id = lease.job_id, .worker = lease.worker.value_or("")};
	return {};
}

static std::optional<Target>
dead_letter_target(const Snapshot &snapshot, const std::string &key)
{
	for (const DeadLetter &letter : snapshot.dead_letters.value_or(std::vector<DeadLetter>()))
		if (std::to_string(letter.job_id) == key && letter.queue)
			return Target{.queue = *letter.queue, .job_id = letter.job_id, .is_dead = true};
	return {};
}

std::optional<Target>
target_of(const State &state, const Snapshot &snapshot)
{
	const std::string &key = state.here().key;
	std::optional<Target> target;
	if (state.screen == Screen::jobs)
		target = job_target(snapshot, key);
	else if (state.screen == Screen::dead_letters)
		target = dead_letter_target(snapshot, key);
	else if (!key.empty())
		target = Target{.queue = key};
	if (!target)
		return {};
	if (auto queue = snapshot.queues.find(target->queue); queue != snapshot.queues.end())
	{
		target->ready = queue->second.ready;
		target->dead = queue->second.dead;
	}
	return target;
}

static bool
ask_for_deed(State &state, int key, const Snapshot &snapshot)
{
	for (Deed deed : deeds_of(state.screen))
	{
		if (name_of(deed).key != key)
			continue;
		std::optional<Target> target = target_of(state, snapshot);
		std::string why = forbidden(deed, snapshot, target ? target->queue : "");
		if (!why.empty())
			state.message = std::string(name_of(deed).verb) + ": " + why;
		else if (!target)
			state.message = std::string(name_of(deed).verb) + ": no row is chosen";
		else
			state.asked = Action{deed, *target};
		return true;
	}
	return false;
}

static void
answer_question(State &state, int key)
{
	if (key == 'y' || key == 'Y')
		state.confirmed = state.asked;
	else
		state.message = "not done";
	state.asked.reset();
}

void
press(State &state, int key, const Snapshot *snapshot, const Table &table, size_t page)
{
	if (key == kKeyResize)
		return;
	if (state.asked)
		return answer_question(state, key);
	state.message.clear();
	if (key == 'q')
		state.wants_end = true;
	else if (key == ' ')
		state.wants_look = true;
	else if (!turn_to(state, key) && !move(state, key, table, page) &&
			 !sort_otherwise(state, key, table) &&
			 !(snapshot != nullptr && ask_for_deed(state, key, *snapshot)) && key != kKeyEscape)
		state.message = "no such key here; h shows those that there are";
}

} // namespace top
