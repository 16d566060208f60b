// Workers that wait for jobs which come at a steady rate: how long from an enqueue to the claim that returns its job.
// A side either has a claim that waits, or one connection listens and tells an idle worker to claim.
#pragma once

#include "side.h"

// Says on standard output what it measured, a line each: metric, tab, value.
void run_waiting(const Side &, const Arguments &);
