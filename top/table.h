/* A table of text, and the choice of columns that fit a line. */
#pragma once

#include "text.h"

#include <string>
#include <vector>

namespace top {

/*
 * Emphasis of a cell. The text must be sufficient without the emphasis, since the terminal may have
 * no colours.
 */
enum class Style
{
	plain,
	bold,
	dim,
	good,
	warn,
	bad,
	heading,
	selected,
};

struct Column
{
	std::string title;
	Align align = Align::left;
	/*
	 * Order in which columns are left out if the line is too narrow: columns of the highest rank
	 * first. A column of rank 0 is always shown.
	 */
	int rank = 0;
	/*
	 * Width to which the column may be cut; 0: the column is not cut. A column is left out only if
	 * cutting columns is not enough.
	 */
	int least = 0;
};

/* Sort key of a cell: number, then text. Unknown values are always last. */
struct Order
{
	bool is_known = false;
	double number = 0;
	std::string text = {};
};

struct Cell
{
	std::string text;
	Order order;
	Style style = Style::plain;
};

struct Row
{
	/* name of the row, the same in each look */
	std::string key;
	std::vector<Cell> cells;
	/* the full text of a cell that may be cut */
	std::string detail;
};

struct Table
{
	std::vector<Column> columns;
	std::vector<Row> rows;
	/* text that is shown if there are no rows */
	std::string empty;
};

/* Sort the rows. Rows that are equal keep their order. */
void sort(Table &table, size_t column, bool descending);

/*
 * Return the widths of the columns in a line of that width, with a blank between columns. 0: the
 * column is left out.
 */
std::vector<int> layout(const Table &table, int width);

} // namespace top
