#include "json.h"

#include "shared/text.h"

#include <charconv>
#include <cstdint>

namespace web {

void
write_notes(Json &json, const Notes &notes)
{
	json.name("notes").begin_array();
	for (const std::string &note : notes)
		json.text(note);
	json.end_array();
}

/* ---- reading ---- */

namespace {

class Reader
{
public:
	explicit Reader(std::string_view json) : rest(json) {}

	std::optional<Flat> object();

private:
	std::string_view rest;

	void skip_space();
	bool take(char c);
	bool take_word(std::string_view word);
	std::optional<std::string> text();
	bool escape(std::string &into);
	std::optional<uint32_t> hex4();
	bool value(std::optional<std::string> &into);
	std::optional<std::string> number();
};

void
Reader::skip_space()
{
	size_t n = rest.find_first_not_of(" \t\r\n");
	rest.remove_prefix(n == rest.npos ? rest.size() : n);
}

bool
Reader::take(char c)
{
	skip_space();
	if (rest.empty() || rest[0] != c)
		return false;
	rest.remove_prefix(1);
	return true;
}

bool
Reader::take_word(std::string_view word)
{
	if (!rest.starts_with(word))
		return false;
	rest.remove_prefix(word.size());
	return true;
}

std::optional<uint32_t>
Reader::hex4()
{
	uint32_t code = 0;
	if (rest.size() < 4)
		return {};
	auto [end, error] = std::from_chars(rest.data(), rest.data() + 4, code, 16);
	if (error != std::errc() || end != rest.data() + 4)
		return {};
	rest.remove_prefix(4);
	return code;
}

/* Read what follows a backslash. A lone half of a surrogate pair and U+0000 are errors. */
bool
Reader::escape(std::string &into)
{
	constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
	if (rest.empty())
		return false;
	char c = rest[0];
	rest.remove_prefix(1);
	if (size_t at = kNames.find(c); at != kNames.npos)
	{
		into += kMeanings[at];
		return true;
	}
	/* Two halves make a character beyond U+FFFF. */
	std::optional<uint32_t> code;
	if (c == 'u')
		code = hex4();
	if (code && *code >= 0xd800 && *code < 0xdc00 && take_word("\\u"))
	{
		std::optional<uint32_t> low = hex4();
		if (!low || *low < 0xdc00 || *low > 0xdfff)
			return false;
		code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
	}
	if (!code || *code == 0 || (*code >= 0xd800 && *code <= 0xdfff))
		return false;
	into += shared::utf8_of(*code);
	return true;
}

std::optional<std::string>
Reader::text()
{
	std::string read;
	if (!take('"'))
		return {};
	while (!rest.empty())
	{
		shared::CodePoint point = shared::first_code_point(rest);
		if (!point.is_valid || point.code < 0x20)
			return {};
		std::string_view bytes = rest.substr(0, point.bytes);
		rest.remove_prefix(point.bytes);
		if (bytes == "\"")
			return read;
		if (bytes != "\\")
			read += bytes;
		else if (!escape(read))
			return {};
	}
	return {};
}

std::optional<std::string>
Reader::number()
{
	size_t length = rest.find_first_not_of("+-.0123456789eE");
	std::string digits(rest.substr(0, length));
	double value;
	auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
	if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
		return {};
	rest.remove_prefix(digits.size());
	return digits;
}

bool
Reader::value(std::optional<std::string> &into)
{
	skip_space();
	if (rest.starts_with('"'))
		into = text();
	else if (take_word("null"))
		return true;
	else if (take_word("true"))
		into = "true";
	else if (take_word("false"))
		into = "false";
	else
		into = number();
	return into.has_value();
}

std::optional<Flat>
Reader::object()
{
	Flat members;
	if (!take('{'))
		return {};
	bool is_first = true;
	while (!take('}'))
	{
		if (!is_first && !take(','))
			return {};
		is_first = false;
		std::optional<std::string> name = text(), member;
		if (!name || !take(':') || !value(member) || !members.emplace(*name, member).second)
			return {};
	}
	skip_space();
	return rest.empty() ? std::optional<Flat>(std::move(members)) : std::nullopt;
}

} // namespace

std::optional<Flat>
parsed_object(std::string_view json)
{
	return Reader(json).object();
}

} // namespace web
