/*
 * Makes text from the server safe for a terminal or a log. Names of queues and workers, and errors,
 * are written by other users: such text must not move the cursor, hide characters, or change the
 * direction of later text.
 */
#pragma once

#include <string>
#include <string_view>

namespace shared {

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

/*
 * Return the number of columns that a terminal uses for a character (wcwidth() of the locale);
 * negative if the character cannot be shown.
 */
int terminal_columns(char32_t code);

/* A code point of UTF-8. A bad byte becomes an invalid code point of one byte. */
struct CodePoint
{
	char32_t code;
	size_t bytes;
	bool is_valid;
};
CodePoint first_code_point(std::string_view text);
std::string utf8_of(char32_t code);

} // namespace shared
