// Workers that wait for jobs, which come at a steady rate: measures the time from an enqueue to the
// claim that returns the job. A side either has a claim that waits, or one connection listens and
// lets an idle worker claim.
#pragma once

#include "side.h"

// Run the workers. The results are written to standard output, one in a line: metric, tab, value.
void run_waiting(const Side &, const Arguments &);
