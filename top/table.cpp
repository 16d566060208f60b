#include "table.h"

#include <algorithm>
#include <tuple>

namespace top {

namespace {

int
total(const std::vector<int> &widths)
{
	int sum = -1;
	for (int width : widths)
		sum += width > 0 ? width + 1 : 0;
	return sum;
}

/* Return the width that each column needs to show its texts in full. */
std::vector<int>
natural_widths(const Table &table)
{
	std::vector<int> widths;
	for (size_t i = 0; i < table.columns.size(); i++)
	{
		int width = std::max(1, width_of(table.columns[i].title));
		for (const Row &row : table.rows)
			width = std::max(width, width_of(row.cells[i].text));
		widths.push_back(width);
	}
	return widths;
}

/*
 * Among the columns that can still be cut, make the widest narrower. Return false if no column can
 * be cut any more.
 */
bool
cut_widest(const std::vector<Column> &columns, std::vector<int> &widths, int too_much)
{
	size_t widest = columns.size();
	for (size_t i = 0; i < columns.size(); i++)
		if (columns[i].least > 0 && widths[i] > columns[i].least &&
			(widest == columns.size() || widths[i] > widths[widest]))
			widest = i;
	if (widest == columns.size())
		return false;
	widths[widest] = std::max(columns[widest].least, widths[widest] - too_much);
	return true;
}

bool
leave_one_out(const std::vector<Column> &columns, std::vector<int> &widths)
{
	size_t least_wanted = columns.size();
	for (size_t i = 0; i < columns.size(); i++)
		if (columns[i].rank > 0 && widths[i] > 0 &&
			(least_wanted == columns.size() || columns[i].rank >= columns[least_wanted].rank))
			least_wanted = i;
	if (least_wanted == columns.size())
		return false;
	widths[least_wanted] = 0;
	return true;
}

} // namespace

void
sort(Table &table, size_t column, bool descending)
{
	std::stable_sort(table.rows.begin(), table.rows.end(), [&](const Row &a, const Row &b) {
		const Order &x = a.cells[column].order;
		const Order &y = b.cells[column].order;
		if (!x.is_known || !y.is_known)
			return x.is_known && !y.is_known;
		return descending ? std::tie(y.number, y.text) < std::tie(x.number, x.text)
						  : std::tie(x.number, x.text) < std::tie(y.number, y.text);
	});
}

std::vector<int>
layout(const Table &table, int width)
{
	const std::vector<Column> &columns = table.columns;
	/*
	 * Choose the columns: leave out the least important columns until the others fit, each of them
	 * cut to its least width.
	 */
	std::vector<int> widths = natural_widths(table);
	std::vector<int> least = widths;
	for (size_t i = 0; i < columns.size(); i++)
		if (columns[i].least > 0)
			least[i] = std::min(least[i], columns[i].least);
	while (total(least) > width && leave_one_out(columns, least))
		;
	for (size_t i = 0; i < columns.size(); i++)
		if (least[i] == 0)
			widths[i] = 0;
	/* Cut wide columns until the line fits. */
	while (total(widths) > width && cut_widest(columns, widths, total(widths) - width))
		;
	return widths;
}

} // namespace top
