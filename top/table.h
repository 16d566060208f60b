/* A table of text, and which of it has room in a line. */
#pragma once

#include "text.h"

#include <string>
#include <vector>

namespace top {

/* What a cell says beside its text: never by colour alone, the text says it too. */
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
	/* 0: always there. Of the others the highest are left out first where there is no room. */
	int rank = 0;
	/* Not 0: may be cut to so many columns rather than that another one is left out. */
	int least = 0;
};

/* By what rows are sorted: numbers, or text. What is not known is always last. */
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
	/* The same in each look, whatever else has changed. */
	std::string key;
	std::vector<Cell> cells;
	/* All of what its last cell has cut off. */
	std::string detail;
};

struct Table
{
	std::vector<Column> columns;
	std::vector<Row> rows;
	/* What is said if there are no rows. */
	std::string empty;
};

/* Rows that are equal stay as they are. */
void sort(Table &table, size_t column, bool descending);

/* The width of each column in a line of that width, with a blank between; 0: it is left out. */
std::vector<int> layout(const Table &table, int width);

} // namespace top
