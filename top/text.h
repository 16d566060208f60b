/*
 * Text of others on a terminal. What a queue, a worker or an error is called was written by
 * somebody else: nothing of it may move the cursor, hide, or turn the direction of what follows.
 */
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace top {

/* What the terminal can show. */
enum class Charset
{
	ascii,
	unicode,
};

/* UTF-8, or what should be, as one line that can be shown: \n, \x1b, \u{202e}. */
std::string shown(std::string_view text, Charset charset);

/* The columns that a line which can be shown takes (wcwidth, of the locale). */
int width_of(std::string_view line);

/* The line, cut to that many columns, with a mark at its end if something is missing. */
std::string cut(std::string_view line, int columns, Charset charset);

enum class Align
{
	left,
	right,
};

/* Exactly so many columns. */
std::string fitted(std::string_view line, int columns, Align align, Charset charset);

/* The line broken into at most n of so many columns; the last one is cut. */
std::vector<std::string> wrapped(std::string_view line, int columns, size_t n, Charset charset);

/* One code point of UTF-8; a byte that is none is not valid, and one byte long. */
struct CodePoint
{
	char32_t code;
	size_t bytes;
	bool is_valid;
};
CodePoint first_code_point(std::string_view text);
std::string utf8_of(char32_t code);

/* An SQL literal. The client's encoding is UTF-8, so that no byte of another character is a quote. */
std::string literal(std::string_view text);

} // namespace top
