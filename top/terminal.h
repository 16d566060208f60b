/* The terminal. Only this file uses ncurses. */
#pragma once

#include "frame.h"

namespace top {

class Terminal
{
public:
	Terminal() = default;
	Terminal(const Terminal &) = delete;
	~Terminal() { close(); }

	/* False: the terminal cannot be used; `why` says the reason. */
	bool open(std::string &why);
	void close();

	Size size() const;
	void paint(const std::vector<Line> &lines);
	/* Return kKeyNone if there is no key. Never waits. */
	int read_key();

private:
	bool is_open = false;
	bool has_colors = false;

	int attributes_of(Style style) const;
};

} // namespace top
