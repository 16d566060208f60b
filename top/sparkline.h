/* How a number went, in a line of small bars. */
#pragma once

#include "format.h"
#include "text.h"

#include <string>
#include <vector>

namespace top {

/*
 * The last samples, oldest first, one a column, right-aligned. The largest one of them is a full
 * bar; nothing but 0 is the lowest one; a blank is what nobody knows.
 */
std::string sparkline(const std::vector<Count> &samples, int columns, Charset charset);

} // namespace top
