/* The two ways to use it. They return the exit status. */
#pragma once

#include "options.h"
#include "text.h"

namespace top {

/* In a terminal, until the user ends it. */
int watch(Link &link, const Options &options, Charset charset);

/* One look to standard output, or two that give rates. */
int print_once(Link &link, const Options &options, Charset charset);

} // namespace top
