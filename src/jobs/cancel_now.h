/* Cancelling a job without waiting, for the scheduler: the job is a member of a batch that was cancelled. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Cancel the job if no other transaction uses its lease or is changing its row. Call this in a
 * subtransaction. Returns false, or raises an error, if the job cannot be cancelled now. The caller tries
 * again later.
 */
bool cancel_job_now(int64 job_id);

} // namespace pgq
