/*
 * Makes text from the server safe for a terminal. Names of queues and workers, and errors, are
 * written by other users: such text must not move the cursor, hide characters, or change the
 * direction of later text.
 */
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace top {

/* Characters that the terminal can show. */
enum class Charset
{
	ascii,
	unicode,
};

/*
 * Return the text as one printable line, with escapes: \n, \x1b, \u{202e}. Bytes that are not UTF-8
 * are escaped, too.
 */
std::string shown(std::string_view text, Charset charset);

/* Return the number of columns of a printable line (wcwidth() of the locale). */
int width_of(std::string_view line);

/* Cut the line to that many columns, with a mark at the end if text is missing. */
std::string cut(std::string_view line, int columns, Charset charset);

enum class Align
{
	left,
	right,
};

/* Cut or pad the line to exactly that many columns. */
std::string fitted(std::string_view line, int columns, Align align, Charset charset);

/* Break the line into at most n lines of that width; the last line is cut. */
std::vector<std::string> wrapped(std::string_view line, int columns, size_t n, Charset charset);

/* A code point of UTF-8. A bad byte becomes an invalid code point of one byte. */
struct CodePoint
{
	char32_t code;
	size_t bytes;
	bool is_valid;
};
CodePoint first_code_point(std::string_view text);
std::string utf8_of(char32_t code);

/*
 * Return an SQL literal. The client encoding must be UTF-8, in which no byte of another character
 * is a quote.
 */
std::string literal(std::string_view text);

} // namespace top
