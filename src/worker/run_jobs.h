/* Running the jobs that a handler's worker has claimed, and what comes after an error. */
#pragma once

#include "handlers/call.h"

namespace pgq {

/*
 * Run all jobs in one transaction. If jobs are cancelled meanwhile, run the others so again. If it
 * fails, run each of them in a transaction of its own, and end the attempts of those that fail.
 * Ends the process if the server stops.
 */
void run_jobs(const HandlerRow &handler, const char *queue, HandledJobs *jobs);

} // namespace pgq
