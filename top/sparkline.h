/* Shows how a number has changed over time, as a line of small bars. */
#pragma once

#include "format.h"
#include "text.h"

#include <string>
#include <vector>

namespace top {

/*
 * Show the last samples, one sample per column, oldest first, right-aligned. The largest sample is
 * a full bar; only a sample of 0 is the lowest bar; an unknown sample is a blank.
 */
std::string sparkline(const std::vector<Count> &samples, int columns, Charset charset);

} // namespace top
