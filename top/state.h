/* The choices of the user, and how keys change them. */
#pragma once

#include "action.h"
#include "screens.h"

namespace top {

/* Keys that are not characters have numbers above those of Unicode. */
enum Key : int
{
	kKeyNone = 0,
	kKeyTab = '\t',
	kKeyEscape = 27,
	kKeyUp = 0x110000,
	kKeyDown,
	kKeyPageUp,
	kKeyPageDown,
	kKeyHome,
	kKeyEnd,
	kKeyResize,
};

struct Chosen
{
	size_t sort_column = 0;
	bool is_descending = false;
	/*
	 * Key of the chosen row, and its position. If the row is gone, the row at this position is
	 * chosen.
	 */
	std::string key;
	size_t row = 0;
	/* Number of the first row that is shown. */
	size_t first = 0;
};

struct State
{
	Screen screen = Screen::queues;
	std::array<Chosen, kScreens> chosen;
	/*
	 * the action whose question is on the screen: the key y confirms the action, any other key
	 * drops it
	 */
	std::optional<Action> asked;
	/* the action that the user has confirmed, to be run now */
	std::optional<Action> confirmed;
	std::string message;
	bool wants_look = false;
	bool wants_end = false;

	State();
	Chosen &here() { return chosen[static_cast<size_t>(screen)]; }
	const Chosen &here() const { return chosen[static_cast<size_t>(screen)]; }
};

/* Return the actions that have a key on the screen. */
std::vector<Deed> deeds_of(Screen screen);

/* Return the object of the chosen row; nothing if no row is chosen. */
std::optional<Target> target_of(const State &state, const Snapshot &snapshot);

/*
 * Return the table of the screen, sorted. If the chosen row is gone, another row becomes the chosen
 * row.
 */
Table current_table(State &state, const Snapshot &snapshot, const Memory &memory, Form form);

/*
 * Handle a key. snapshot: nullptr before the first look. page: by how many rows PgUp and PgDn move.
 */
void press(State &state, int key, const Snapshot *snapshot, const Table &table, size_t page);

} // namespace top
