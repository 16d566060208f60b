// How soon somebody else leads when the leader is killed.
#pragma once

#include "side.h"

// Says on standard output what it measured, a line each: metric, tab, value.
void run_takeover(const Side &, const Arguments &);
