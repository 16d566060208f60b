/* The terminal. All of ncurses is in here. */
#pragma once

#include "frame.h"

namespace top {

class Terminal
{
public:
	Terminal() = default;
	Terminal(const Terminal &) = delete;
	~Terminal() { close(); }

	/* False: this is no terminal that can be drawn on; why is said in the text. */
	bool open(std::string &why);
	void close();

	Size size() const;
	void paint(const std::vector<Line> &lines);
	/* kKeyNone: there is none. Never waits. */
	int read_key();

private:
	bool is_open = false;
	bool has_colors = false;

	int attributes_of(Style style) const;
};

} // namespace top
