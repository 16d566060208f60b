// Workers that work off a set of jobs, and the job that comes after all of them: measures the time
// from the last ack to the claim that returns this job.
#pragma once

#include "side.h"

// Run the workers. The results are written to standard output, one in a line: metric, tab, value.
void run_fire(const Side &, const Arguments &);
