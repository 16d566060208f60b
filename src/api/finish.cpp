/*
 * Functions for a claimed job: pgq_ack, pgq_ack_many, pgq_fail, pgq_release, pgq_extend,
 * pgq_assert_lease, pgq_progress, pgq_checkpoint.
 */
#include "jobs/finish.h"
#include "api/args.h"
#include "api/job_list.h"
#include "api/result_rows.h"
#include "jobs/checkpoint.h"

namespace pgq {

static Failure
read_failure(FunctionCallInfo fcinfo, int64 token)
{
	enum
	{
		kError = 2,
		kRetryIn,
		kRetryAgain,
	};
	Failure failure{};
	failure.fence = token;
	failure.retry = !given(fcinfo, kRetryAgain) || PG_GETARG_BOOL(kRetryAgain);
	failure.reason = "failed without retry";
	if ((failure.has_error = given(fcinfo, kError)))
		failure.error = clipped_error(PG_GETARG_DATUM(kError));
	if ((failure.has_retry_in = given(fcinfo, kRetryIn)))
	{
		failure.retry_in = PG_GETARG_DATUM(kRetryIn);
		(void) duration(failure.retry_in, "retry_in");
	}
	return failure;
}

static const char *
answer_of(AttemptEnd end)
{
	switch (end)
	{
		case AttemptEnd::kRetry:
			return "retry";
		case AttemptEnd::kDead:
			return "dead";
		case AttemptEnd::kGone:
		case AttemptEnd::kBusy:
			break;
	}
	return "stale";
}

/* Check the length of a step's name. The bound keeps the index entry of the checkpoint small. */
static Datum
step_name(Datum step)
{
	static constexpr int kMost = 200;
	int bytes = static_cast<int>(toast_raw_datum_size(step) - VARHDRSZ);
	if (bytes < 1 || bytes > kMost)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("step is too long or empty"),
				 errhint("The name of a step has 1 to %d bytes.", kMost)));
	return step;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_ack);
PG_FUNCTION_INFO_V1(pgq_ack_many);
PG_FUNCTION_INFO_V1(pgq_fail);
PG_FUNCTION_INFO_V1(pgq_release);
PG_FUNCTION_INFO_V1(pgq_extend);
PG_FUNCTION_INFO_V1(pgq_assert_lease);
PG_FUNCTION_INFO_V1(pgq_progress);
PG_FUNCTION_INFO_V1(pgq_checkpoint);

PGDLLEXPORT Datum
pgq_ack(PG_FUNCTION_ARGS)
{
	start_write("pgq_ack()");
	Ack ack;
	ack.job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	ack.token = DatumGetInt64(required(fcinfo, 1, "lease"));
	Datum result = given(fcinfo, 2) ? PG_GETARG_DATUM(2) : Datum{0};
	SegmentSet segments(RowExclusiveLock);
	Records records;
	take_in_hand(&ack);
	if (!ack_job(segments, records, ack, given(fcinfo, 2) ? &result : nullptr))
		complain_stale(ack.job_id, ack.token);
	records.write();
	segments.close();
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_ack_many(PG_FUNCTION_ARGS)
{
	start_write("pgq_ack_many()");
	ResultRows result(fcinfo);
	JobList jobs = read_jobs(fcinfo);
	ack_jobs(jobs, [&](int i, bool acked) {
		if (acked)
			result.put(jobs.ids[i]);
		else
			note_stale_call(jobs.id(i));
	});
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_fail(PG_FUNCTION_ARGS)
{
	start_write("pgq_fail()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	AttemptEnd end = fail_job(job_id, read_failure(fcinfo, token));
	if (end == AttemptEnd::kGone)
		note_stale_call(job_id);
	PG_RETURN_TEXT_P(cstring_to_text(answer_of(end)));
}

PGDLLEXPORT Datum
pgq_extend(PG_FUNCTION_ARGS)
{
	start_write("pgq_extend()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	int64 wanted = given(fcinfo, 2) ? lease_time(PG_GETARG_DATUM(2), "lease_time") : 0;
	TimestampTz end = extend_lease(job_id, token, wanted);
	if (end == 0)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(end);
}

PGDLLEXPORT Datum
pgq_release(PG_FUNCTION_ARGS)
{
	start_write("pgq_release()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	Interval none{};
	Datum delay = given(fcinfo, 2) ? PG_GETARG_DATUM(2) : IntervalPGetDatum(&none);
	(void) duration(delay, "delay");
	bool released = release_job(job_id, token, delay);
	if (!released)
		note_stale_call(job_id);
	PG_RETURN_BOOL(released);
}

PGDLLEXPORT Datum
pgq_assert_lease(PG_FUNCTION_ARGS)
{
	start_write("pgq_assert_lease()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	if (!assert_lease(job_id, token))
		complain_stale(job_id, token);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_progress(PG_FUNCTION_ARGS)
{
	start_write("pgq_progress()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	if (!note_progress(job_id, token, required(fcinfo, 2, "progress")))
		complain_stale(job_id, token);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_checkpoint(PG_FUNCTION_ARGS)
{
	start_write("pgq_checkpoint()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	Datum step = step_name(required(fcinfo, 2, "step"));
	bool is_null = !given(fcinfo, 3);
	Datum value = is_null ? Datum{0} : PG_GETARG_DATUM(3);
	if (!keep_checkpoint(job_id, token, step, &value, &is_null))
		complain_stale(job_id, token);
	if (is_null)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(value);
}
}
