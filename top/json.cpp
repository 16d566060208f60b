#include "json.h"

#include "text.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace top {

std::string
json_text(std::string_view text)
{
	std::string quoted = "\"";
	while (!text.empty())
	{
		CodePoint point = first_code_point(text);
		if (!point.is_valid)
			quoted += utf8_of(0xfffd);
		else if (point.code == '"' || point.code == '\\')
			quoted += {'\\', static_cast<char>(point.code)};
		else if (point.code < 0x20 || (point.code >= 0x7f && point.code < 0xa0))
		{
			char escape[8];
			snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(point.code));
			quoted += escape;
		}
		else
			quoted += text.substr(0, point.bytes);
		text.remove_prefix(point.bytes);
	}
	return quoted + "\"";
}

Json &
Json::name(std::string_view member)
{
	next();
	out += json_text(member) + ": ";
	is_named = true;
	return *this;
}

void
Json::text(std::optional<std::string> value)
{
	put(value ? json_text(*value) : "null");
}

void
Json::number(Count value)
{
	put(value ? std::to_string(*value) : "null");
}

void
Json::number(std::optional<double> value)
{
	char digits[32];
	if (!value || !std::isfinite(*value))
		return put("null");
	auto end = std::to_chars(digits, digits + sizeof(digits), *value).ptr;
	put(std::string_view(digits, static_cast<size_t>(end - digits)));
}

void
Json::flag(std::optional<bool> value)
{
	put(value ? (*value ? "true" : "false") : "null");
}

void
Json::begin(char bracket)
{
	next();
	out += bracket;
	depth++;
	is_first = true;
}

void
Json::end(char bracket)
{
	depth--;
	if (!is_first)
		out += "\n" + std::string(static_cast<size_t>(depth) * 2, ' ');
	out += bracket;
	is_first = false;
	if (depth == 0)
		out += "\n";
}

void
Json::put(std::string_view value)
{
	next();
	out += value;
}

/* Write what precedes a value: nothing after a name, otherwise a comma and a new line. */
void
Json::next()
{
	if (is_named)
		is_named = false;
	else if (depth > 0)
	{
		if (!is_first)
			out += ",";
		out += "\n" + std::string(static_cast<size_t>(depth) * 2, ' ');
	}
	is_first = false;
}

} // namespace top
