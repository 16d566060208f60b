/*
 * What a worker says of a job it has: pgq_ack, pgq_ack_many, pgq_fail, pgq_extend.
 */
#include "jobs/finish.h"
#include "api/args.h"
#include "api/result_rows.h"

namespace pgq {

static constexpr int kStaleLease = MAKE_SQLSTATE('P', 'Q', '0', '0', '1');

[[noreturn]] static void
complain_stale(int64 job_id, int64 token)
{
	ereport(ERROR,
			(errcode(kStaleLease),
			 errmsg("lease %lld of job %lld is not current", static_cast<long long>(token),
					static_cast<long long>(job_id)),
			 errdetail("It expired, was ended already, or is not a lease of that job."),
			 errhint("Roll back: the job is not yours any more, and may be in other hands.")));
}

/* Jobs and their leases, as two arrays. */
struct JobList
{
	Datum *ids;
	Datum *tokens;
	int n;
};

static JobList
read_jobs(FunctionCallInfo fcinfo)
{
	static constexpr int kMost = 10000;
	JobList jobs;
	jobs.n = elements_of(required(fcinfo, 0, "job_ids"), INT8OID, "job_ids", &jobs.ids);
	int n_tokens = elements_of(required(fcinfo, 1, "leases"), INT8OID, "leases", &jobs.tokens);
	if (jobs.n != n_tokens)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("job_ids and leases must have the same number of elements"),
						errdetail("They have %d and %d.", jobs.n, n_tokens)));
	if (jobs.n > kMost)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("job_ids has too many elements"),
				 errdetail("It has %d; at most %d are possible.", jobs.n, kMost)));
	return jobs;
}

static void
ack_all(const JobList &jobs, ResultRows *result)
{
	SegmentSet segments(RowExclusiveLock);
	open_segments_of_jobs(segments, jobs.ids, jobs.n);
	for (int i = 0; i < jobs.n; i++)
	{
		if (ack_job(segments, DatumGetInt64(jobs.ids[i]), DatumGetInt64(jobs.tokens[i])))
			result->put(jobs.ids[i]);
		CHECK_FOR_INTERRUPTS();
	}
	segments.close();
}

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

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_ack);
PG_FUNCTION_INFO_V1(pgq_ack_many);
PG_FUNCTION_INFO_V1(pgq_fail);
PG_FUNCTION_INFO_V1(pgq_extend);

PGDLLEXPORT Datum
pgq_ack(PG_FUNCTION_ARGS)
{
	start_write("pgq_ack()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	not_yet(given(fcinfo, 2), "result");
	SegmentSet segments(RowExclusiveLock);
	if (!ack_job(segments, job_id, token))
		complain_stale(job_id, token);
	segments.close();
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_ack_many(PG_FUNCTION_ARGS)
{
	start_write("pgq_ack_many()");
	/* What array_agg() says of no rows: nothing to do. */
	bool nothing = !given(fcinfo, 0) && !given(fcinfo, 1);
	ResultRows result(fcinfo);
	if (!nothing)
		ack_all(read_jobs(fcinfo), &result);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_fail(PG_FUNCTION_ARGS)
{
	start_write("pgq_fail()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	AttemptEnd end = fail_job(job_id, read_failure(fcinfo, token));
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
}
