// Clients that repeat the same few calls, as fast as possible or with work in between.
#pragma once

#include "side.h"

// Run the clients. The results are written to standard output, one in a line: metric, tab, value.
void run_cycle(const Side &, const Arguments &);
