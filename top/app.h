/* The two modes of the program. Each function returns the exit status. */
#pragma once

#include "options.h"
#include "text.h"

namespace top {

/* Run in a terminal until the user quits. */
int watch(Link &link, const Options &options, Charset charset);

/*
 * Look at the server once, and print the data to standard output. With an interval, look twice,
 * which gives rates.
 */
int print_once(Link &link, const Options &options, Charset charset);

} // namespace top
