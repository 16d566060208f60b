// Clients that do the same few things again and again, as fast as they can or with work in between.
#pragma once

#include "side.h"

// Says on standard output what it measured, a line each: metric, tab, value.
void run_cycle(const Side &, const Arguments &);
