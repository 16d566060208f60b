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

	/* Returns false if the terminal cannot be used; `why` gets the reason. */
	bool open(std::string &why);
	void close();

	Size size() const;
	void paint(const std::vector<Line> &lines);
	/* Read a key without waiting. Returns kKeyNone if there is none. */
	int read_key();

private:
	bool is_open = false;
	bool has_colors = false;

	int attributes_of(Style style) const;
};

} // namespace top
