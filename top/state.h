/* What the user has chosen, and what a key changes in it. */
#pragma once

#include "action.h"
#include "screens.h"

namespace top {

/* Keys that are no characters lie beyond these. */
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
	/* The row by its key, and where it was, should it go. */
	std::string key;
	size_t row = 0;
	/* The first one that is shown. */
	size_t first = 0;
};

struct State
{
	Screen screen = Screen::queues;
	std::array<Chosen, kScreens> chosen;
	/* What is being asked: y does it, anything else does not. */
	std::optional<Action> asked;
	/* What is to be done now. */
	std::optional<Action> confirmed;
	std::string message;
	bool wants_look = false;
	bool wants_end = false;

	State();
	Chosen &here() { return chosen[static_cast<size_t>(screen)]; }
	const Chosen &here() const { return chosen[static_cast<size_t>(screen)]; }
};

/* The deeds that have a key on that screen. */
std::vector<Deed> deeds_of(Screen screen);

/* What the chosen row stands for; nothing if there is none. */
std::optional<Target> target_of(const State &state, const Snapshot &snapshot);

/* The table of the screen, sorted; and the row that is chosen becomes one that is there. */
Table current_table(State &state, const Snapshot &snapshot, const Memory &memory, Form form);

/* snapshot: null before the first look. page: how many rows are shown. */
void press(State &state, int key, const Snapshot *snapshot, const Table &table, size_t page);

} // namespace top
