/* Running the jobs that a handler's worker has claimed, and what comes after an error. */
#pragma once

#include "handlers/call.h"

namespace pgq {

/*
 * Call the handler for all jobs in one transaction. If some of the jobs are cancelled or end
 * meanwhile, call it again for the others, in one transaction. If the call fails, call the handler
 * for each job in a transaction of its own, and end the attempts that fail. Gives the remaining
 * jobs back if others wait for jobs, if a call has taken long, if the leases may end, or if the
 * handler may not run any more. Ends the process if the server stops.
 */
void run_jobs(const HandlerRow &handler, const char *queue, HandledJobs *jobs);

} // namespace pgq
