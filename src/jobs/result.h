/* The state and result of a job: pgq_result. */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct JobResult
{
	/* ready, scheduled, leased, acked, cancelled, expired or dead */
	const char *state;
	bool has_result;
	Datum result; /* jsonb */
	bool has_error;
	Datum error; /* text: error of the last attempt */
};

/*
 * Return the state of the job. If it is live, wait until it has ended, for at most `wait`
 * microseconds. A job of this transaction itself is not waited for. Returns false if there is no
 * such job and no record of one.
 */
bool result_of(int64 job_id, int64 wait, JobResult *result);

} // namespace pgq
