#include "text.h"

namespace top {

using shared::CodePoint;
using shared::first_code_point;
using shared::terminal_columns;
using shared::utf8_of;

int
width_of(std::string_view line)
{
	int columns = 0;
	while (!line.empty())
	{
		CodePoint point = first_code_point(line);
		int n = terminal_columns(point.code);
		columns += n > 0 ? n : 0;
		line.remove_prefix(point.bytes);
	}
	return columns;
}

/* Return as much of the line as fits into that many columns. */
static std::string_view
head_of(std::string_view line, int columns)
{
	size_t bytes = 0;
	while (bytes < line.size())
	{
		CodePoint point = first_code_point(line.substr(bytes));
		int n = terminal_columns(point.code);
		columns -= n > 0 ? n : 0;
		if (columns < 0)
			break;
		bytes += point.bytes;
	}
	return line.substr(0, bytes);
}

std::string
cut(std::string_view line, int columns, Charset charset)
{
	if (width_of(line) <= columns)
		return std::string(line);
	if (columns <= 0)
		return "";
	const std::string mark = charset == Charset::unicode ? utf8_of(0x2026) : "~";
	return std::string(head_of(line, columns - 1)) + mark;
}

std::vector<std::string>
wrapped(std::string_view line, int columns, size_t n, Charset charset)
{
	std::vector<std::string> lines;
	while (!line.empty() && lines.size() < n)
	{
		std::string_view head = head_of(line, columns);
		bool is_last = lines.size() + 1 == n || head.size() == line.size();
		/* Break the line between words, unless more than half of the line would then be empty. */
		if (size_t blank = head.rfind(' ');
			!is_last && blank != head.npos && blank > head.size() / 2)
			head = head.substr(0, blank + 1);
		if (head.empty())
			break;
		lines.push_back(is_last ? cut(line, columns, charset) : std::string(head));
		line.remove_prefix(head.size());
	}
	return lines;
}

std::string
fitted(std::string_view line, int columns, Align align, Charset charset)
{
	std::string text = cut(line, columns, charset);
	int missing = columns - width_of(text);
	if (missing <= 0)
		return text;
	return text.insert(align == Align::right ? 0 : text.size(), static_cast<size_t>(missing), ' ');
}

std::string
literal(std::string_view text)
{
	bool has_backslash = text.find('\\') != text.npos;
	std::string quoted = has_backslash ? " E'" : "'";
	for (char c : text)
	{
		if (c == '\'' || c == '\\')
			quoted += c;
		quoted += c;
	}
	return quoted + "'";
}

} // namespace top
