/* The state and result of a job: pgq_result. */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct JobResult
{
	/* ready, scheduled, blocked, leased, acked, cancelled, expired or dead */
	const char *state;
	bool has_result;
	Datum result; /* jsonb */
	bool has_error;
	Datum error; /* text: error of the last attempt */
};

/*
 * Find the state of the job. If the job is live, wait until it has ended, for at most `wait`
 * microseconds; a job that only this transaction can end is not waited for. Returns false if there
 * is neither such a job nor a record of its end.
 */
bool result_of(int64 job_id, int64 wait, JobResult *result);

} // namespace pgq
