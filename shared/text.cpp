#include "text.h"

#include <cstdio>
#include <cwchar>

namespace shared {

namespace {

struct Range
{
	char32_t first;
	char32_t last;
};

/* Code points without a shape of their own, which can hide or change other text. */
constexpr Range kInvisible[] = {
	{0xad, 0xad},	  {0x34f, 0x34f},	{0x61c, 0x61c},	  {0x115f, 0x1160},	  {0x17b4, 0x17b5},
	{0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},	  {0x3164, 0x3164},
	{0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0xe0000, 0xe0fff},
};

bool
is_invisible(char32_t code)
{
	for (const Range &range : kInvisible)
		if (code >= range.first && code <= range.last)
			return true;
	return false;
}

} // namespace

int
terminal_columns(char32_t code)
{
	return code < 0x7f ? (code < 0x20 ? -1 : 1) : wcwidth(static_cast<wchar_t>(code));
}

namespace {

bool
can_be_shown(char32_t code, Charset charset)
{
	if (code < 0x7f)
		return code >= 0x20;
	return charset == Charset::unicode && !is_invisible(code) && terminal_columns(code) >= 0;
}

std::string
escaped(const CodePoint &point, unsigned char byte)
{
	char text[16];
	if (point.code == '\n' || point.code == '\t' || point.code == '\r')
		snprintf(text, sizeof(text), "\\%c",
				 point.code == '\n' ? 'n' : (point.code == '\t' ? 't' : 'r'));
	else if (!point.is_valid || point.code < 0x80)
		snprintf(text, sizeof(text), "\\x%02x", byte);
	else
		snprintf(text, sizeof(text), "\\u{%x}", static_cast<unsigned>(point.code));
	return text;
}

/*
 * Smallest code point of each length in bytes: a longer encoding of a smaller code point is not
 * valid.
 */
constexpr char32_t kSmallestOfLength[] = {0, 0, 0x80, 0x800, 0x10000};

size_t
length_by_first_byte(unsigned char byte)
{
	if (byte < 0x80)
		return 1;
	if (byte >= 0xc2 && byte < 0xe0)
		return 2;
	if (byte >= 0xe0 && byte < 0xf0)
		return 3;
	return byte >= 0xf0 && byte < 0xf5 ? 4 : 0;
}

} // namespace

CodePoint
first_code_point(std::string_view text)
{
	unsigned char first = static_cast<unsigned char>(text[0]);
	const CodePoint invalid = {first, 1, false};
	size_t n = length_by_first_byte(first);
	if (n == 1)
		return {first, 1, true};
	if (n == 0 || n > text.size())
		return invalid;
	char32_t code = first & (0x7f >> n);
	for (size_t i = 1; i < n; i++)
	{
		unsigned char byte = static_cast<unsigned char>(text[i]);
		if ((byte & 0xc0) != 0x80)
			return invalid;
		code = code << 6 | (byte & 0x3f);
	}
	if (code < kSmallestOfLength[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return invalid;
	return {code, n, true};
}

std::string
utf8_of(char32_t code)
{
	std::string text;
	if (code < 0x80)
		return text + static_cast<char>(code);
	if (code < 0x800)
		text += static_cast<char>(0xc0 | code >> 6);
	else
	{
		if (code < 0x10000)
			text += static_cast<char>(0xe0 | code >> 12);
		else
		{
			text += static_cast<char>(0xf0 | code >> 18);
			text += static_cast<char>(0x80 | (code >> 12 & 0x3f));
		}
		text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
	}
	return text + static_cast<char>(0x80 | (code & 0x3f));
}

std::string
shown(std::string_view text, Charset charset)
{
	std::string line;
	while (!text.empty())
	{
		CodePoint point = first_code_point(text);
		if (point.is_valid && can_be_shown(point.code, charset))
			line += text.substr(0, point.bytes);
		else
			line += escaped(point, static_cast<unsigned char>(text[0]));
		text.remove_prefix(point.bytes);
	}
	return line;
}

} // namespace shared
