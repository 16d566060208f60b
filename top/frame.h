/* The text of the screen, line by line; terminal.h paints it. */
#pragma once

#include "state.h"

namespace top {

struct Span
{
	std::string text;
	Style style = Style::plain;
};
using Line = std::vector<Span>;

/* All data that the frame shows, except the choices of the user (State). */
struct Scene
{
	const Snapshot *snapshot = nullptr;
	const Table *table = nullptr;
	std::string connection;
	/* why there is no new data; empty: there is new data */
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

/* Return lines that fit the size. In `state`, sets the number of the first row that is shown. */
std::vector<Line> frame_of(State &state, const Scene &scene, Size size);

/*
 * Return by how many rows the keys PgUp and PgDn move: the number of table rows on a screen of that
 * size that has kMostNotes lines below the table.
 */
size_t rows_of(Size size);

} // namespace top
