// Clients, each a thread with a connection of its own. What was measured is said on standard output,
// a line each: metric, tab, value.
#pragma once

#include "broker.h"

// They do the same few things again and again, as fast as they can.
void run_cycle(Connect, const Arguments &);
// Workers wait for jobs that come at a steady rate.
void run_waiting(Connect, const Arguments &);
