/* pgq_claim, pgq_claim_any, pgq_ack_claim and pgq_ack_next, as set-returning functions. */
#include "api/claim_call.h"
#include "api/result_rows.h"

namespace pgq {

static void
return_job(void *result, const QueueRef &ref, const QueueOptions &options, const JobRow &row,
		   const Ready &ready)
{
	ResultRow<ClaimedColumn> job;
	for (int i = 0; i < kClaimedColumns; i++)
	{
		auto column = static_cast<ClaimedColumn>(i);
		bool is_null;
		Datum value = claimed_value(column, {ref, options, row, ready}, &is_null);
		if (!is_null)
			job.set_datum(column, value);
	}
	static_cast<ResultRows *>(result)->put(job);
}

static void
clear_rows(void *result)
{
	static_cast<ResultRows *>(result)->clear();
}

static void
correct_rows(void *result, const Ready *ready, const HandedOut &out)
{
	if (out.kept == 0 && out.renewed == 0)
		return;
	static_cast<ResultRows *>(result)->keep([&](int i, Datum *values) {
		values[static_cast<int>(ClaimedColumn::kLeaseExpiresAt)] =
			TimestampTzGetDatum(ready[i].lease_expires_at());
		return ready[i].handed_out;
	});
}

static Datum
return_jobs(FunctionCallInfo fcinfo, ClaimCall call)
{
	ResultRows result(fcinfo, "claimed_job", claimed_columns);
	call(fcinfo, {return_job, clear_rows, correct_rows, &result, CurrentMemoryContext});
	return (Datum) 0;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_claim);
PG_FUNCTION_INFO_V1(pgq_claim_any);
PG_FUNCTION_INFO_V1(pgq_ack_claim);
PG_FUNCTION_INFO_V1(pgq_ack_next);

PGDLLEXPORT Datum
pgq_claim(PG_FUNCTION_ARGS)
{
	return return_jobs(fcinfo, call_claim);
}

PGDLLEXPORT Datum
pgq_claim_any(PG_FUNCTION_ARGS)
{
	return return_jobs(fcinfo, call_claim_any);
}

PGDLLEXPORT Datum
pgq_ack_claim(PG_FUNCTION_ARGS)
{
	return return_jobs(fcinfo, call_ack_claim);
}

PGDLLEXPORT Datum
pgq_ack_next(PG_FUNCTION_ARGS)
{
	return return_jobs(fcinfo, call_ack_next);
}
}
