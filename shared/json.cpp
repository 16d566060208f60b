#include "json.h"

#include "text.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace shared {

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
	out += json_text(member);
	out += layout == Layout::lines ? ": " : ":";
	is_named = true;
	return *this;
}

Json &
Json::text_or_null(std::optional<std::string_view> value)
{
	return value ? text(*value) : null();
}

Json &
Json::number(double value)
{
	char digits[32];
	if (!std::isfinite(value))
		return null();
	char *end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
	return raw(std::string_view(digits, static_cast<size_t>(end - digits)));
}

Json &
Json::number(std::optional<int64_t> value)
{
	return value ? raw(std::to_string(*value)) : null();
}

Json &
Json::flag(std::optional<bool> value)
{
	return value ? raw(*value ? "true" : "false") : null();
}

Json &
Json::raw(std::string_view json)
{
	next();
	out += json;
	has_value = true;
	return *this;
}

Json &
Json::begin(char bracket)
{
	raw(std::string_view(&bracket, 1));
	depth++;
	has_value = false;
	return *this;
}

Json &
Json::end(char bracket)
{
	depth--;
	if (has_value)
		new_line();
	out += bracket;
	has_value = true;
	if (depth == 0)
		new_line();
	return *this;
}

/* Write what precedes a name or a value: nothing between a name and its value. */
void
Json::next()
{
	if (!is_named && depth > 0)
	{
		if (has_value)
			out += ',';
		new_line();
	}
	is_named = false;
}

void
Json::new_line()
{
	if (layout == Layout::lines)
		out += "\n" + std::string(static_cast<size_t>(depth) * 2, ' ');
}

} // namespace shared
