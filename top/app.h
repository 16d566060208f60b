/* The two modes of the program. Both functions return the exit status. */
#pragma once

#include "options.h"
#include "text.h"

namespace top {

/* Run in a terminal until the user quits. */
int watch(Link &link, const Options &options, Charset charset);

/* Print one look to standard output; with an interval take two looks, which gives rates. */
int print_once(Link &link, const Options &options, Charset charset);

} // namespace top
