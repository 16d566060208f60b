// Measures how soon another process leads when the leader is killed.
#pragma once

#include "side.h"

// Run the measurement. The results are written to standard output, one in a line: metric, tab,
// value.
void run_takeover(const Side &, const Arguments &);
