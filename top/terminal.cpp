#include "terminal.h"

#include <cstdlib>
#include <unistd.h>

#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>

namespace top {

namespace {

enum Pair : short
{
	kGood = 1,
	kWarn,
	kBad,
};

/* Return whether to use colours: see https://no-color.org. */
bool
colors_are_wanted()
{
	const char *no_color = getenv("NO_COLOR");
	return no_color == nullptr || *no_color == '\0';
}

bool
start_colors()
{
	if (!colors_are_wanted() || !has_colors() || start_color() == ERR)
		return false;
	short background = use_default_colors() == OK ? -1 : COLOR_BLACK;
	init_pair(kGood, COLOR_GREEN, background);
	init_pair(kWarn, COLOR_YELLOW, background);
	init_pair(kBad, COLOR_RED, background);
	return true;
}

int
key_of(int code)
{
	switch (code)
	{
		case KEY_UP:
			return kKeyUp;
		case KEY_DOWN:
			return kKeyDown;
		case KEY_PPAGE:
			return kKeyPageUp;
		case KEY_NPAGE:
			return kKeyPageDown;
		case KEY_HOME:
			return kKeyHome;
		case KEY_END:
			return kKeyEnd;
		case KEY_RESIZE:
			return kKeyResize;
		default:
			return kKeyEscape; /* an unknown key */
	}
}

} // namespace

bool
Terminal::open(std::string &why)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
	{
		why = "standard input and output are no terminal: use --once or --json";
		return false;
	}
	/* Use newterm(): initscr() would end the program on an error. */
	SCREEN *screen = newterm(nullptr, stdout, stdin);
	if (screen == nullptr)
	{
		const char *type = getenv("TERM");
		why = std::string("the terminal is not known: TERM=") + (type != nullptr ? type : "");
		return false;
	}
	is_open = true;
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	has_colors = start_colors();
	return true;
}

void
Terminal::close()
{
	if (is_open)
		endwin();
	is_open = false;
}

Size
Terminal::size() const
{
	return {getmaxy(stdscr), getmaxx(stdscr)};
}

int
Terminal::attributes_of(Style style) const
{
	auto colored = [&](Pair pair, int otherwise) {
		return has_colors ? static_cast<int>(COLOR_PAIR(pair)) | otherwise : otherwise;
	};
	switch (style)
	{
		case Style::bold:
			return A_BOLD;
		case Style::dim:
			return A_DIM;
		case Style::good:
			return colored(kGood, A_NORMAL);
		case Style::warn:
			return colored(kWarn, A_BOLD);
		case Style::bad:
			return colored(kBad, A_BOLD);
		case Style::heading:
			return A_UNDERLINE;
		case Style::selected:
			return A_REVERSE;
		default:
			return A_NORMAL;
	}
}

void
Terminal::paint(const std::vector<Line> &lines)
{
	erase();
	for (size_t i = 0; i < lines.size(); i++)
	{
		::move(static_cast<int>(i), 0);
		for (const Span &span : lines[i])
		{
			attrset(attributes_of(span.style));
			addstr(span.text.c_str());
		}
	}
	attrset(A_NORMAL);
	refresh();
}

int
Terminal::read_key()
{
	wint_t character;
	switch (get_wch(&character))
	{
		case OK:
			return static_cast<int>(character);
		case KEY_CODE_YES:
			return key_of(static_cast<int>(character));
		default:
			return kKeyNone;
	}
}

} // namespace top
