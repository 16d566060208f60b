/* Fits text into lines of a terminal. */
#pragma once

#include "shared/text.h"

#include <string>
#include <string_view>
#include <vector>

namespace top {

using shared::Charset;
using shared::shown;

/* Return the number of columns of a printable line. */
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

/*
 * Return an SQL literal. The client encoding must be UTF-8, in which no byte of another character
 * is a quote.
 */
std::string literal(std::string_view text);

} // namespace top
