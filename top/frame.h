/* What is on the screen, line by line; the terminal only paints it. */
#pragma once

#include "state.h"

namespace top {

struct Span
{
	std::string text;
	Style style = Style::plain;
};
using Line = std::vector<Span>;

/* Everything that is shown beside the choices of the user. */
struct Scene
{
	const Snapshot *snapshot = nullptr;
	const Table *table = nullptr;
	std::string connection;
	/* Why there is nothing new; empty: all is well. */
	std::string trouble;
	double interval = 0;
	bool is_acting = false;
	Charset charset = Charset::ascii;
};

struct Size
{
	int lines;
	int columns;
};

/* Lines that fit. The choices learn which row is the first that is shown. */
std::vector<Line> frame_of(State &state, const Scene &scene, Size size);

/* How many rows of the table a screen of that size has at least, for keys that turn a page. */
size_t rows_of(Size size);

} // namespace top
