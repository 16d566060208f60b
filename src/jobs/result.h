/*
 * What has become of a job: pgq_result.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct JobResult
{
	const char *state; /* ready, scheduled, leased; acked, cancelled, expired, dead */
	bool has_result;
	Datum result; /* jsonb */
	bool has_error;
	Datum error; /* text: that of its last attempt */
};

/*
 * As it is now; or, if it is live, when it has ended, but no later than wait (microseconds) from now. A job
 * of this transaction's own is not waited for. False: there is no such job, and nothing is kept of it.
 */
bool result_of(int64 job_id, int64 wait, JobResult *result);

} // namespace pgq
