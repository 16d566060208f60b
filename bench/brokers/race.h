// Clients of a broker, each a thread with a connection of its own. The results are written to
// standard output, one in a line: metric, tab, value.
#pragma once

#include "broker.h"

// Run clients that repeat the same few calls as fast as possible.
void run_cycle(Connect, const Arguments &);
// Run workers that wait for jobs, which come at a steady rate.
void run_waiting(Connect, const Arguments &);
