/*
 * pgq_cancel, pgq_finish, pgq_update and pgq_retry, which change jobs by their ids; pgq_redrive, and
 * pgq_run_again.
 */
#include "jobs/change.h"
#include "api/args.h"
#include "api/job_list.h"
#include "api/result_rows.h"
#include "enqueue/enqueue.h"
#include "jobs/dead_letter.h"
#include "jobs/run_again.h"

namespace pgq {

static const char *
name_of(JobState state)
{
	switch (state)
	{
		case JobState::kReady:
			return "ready";
		case JobState::kScheduled:
			return "scheduled";
		case JobState::kBlocked:
			return "blocked";
		case JobState::kLeased:
			return "leased";
		case JobState::kDead:
			return "dead";
		case JobState::kNone:
			break;
	}
	return nullptr;
}

namespace {
/*
 * Numbers of the arguments of pgq_update after the job's id. kQueue is read separately from the
 * other arguments.
 */
enum UpdateArgument
{
	kPayload = 1,
	kPriority,
	kRunAt,
	kQueue,
	kGroupKey,
	kMaxAttempts,
	kHeaders,
};

} // namespace

static JobChange
read_change(FunctionCallInfo fcinfo)
{
	JobChange change{};
	auto set = [&](UpdateArgument from, JobColumn to) {
		if (given(fcinfo, from))
			change.set(to, PG_GETARG_DATUM(from));
	};
	set(kPayload, kJobPayload);
	set(kPriority, kJobPriority);
	set(kHeaders, kJobHeaders);
	if (given(fcinfo, kRunAt))
		change.set(kJobRunAt,
				   TimestampTzGetDatum(finite_moment(PG_GETARG_TIMESTAMPTZ(kRunAt), "run_at")));
	if (given(fcinfo, kMaxAttempts))
		change.set(kJobMaxAttempts, Int32GetDatum(in_range(PG_GETARG_INT32(kMaxAttempts), 1,
														   INT32_MAX, "max_attempts")));
	if (given(fcinfo, kGroupKey))
		change.set(kJobGroupKey, key_value(PG_GETARG_DATUM(kGroupKey), "group_key"));
	return change;
}

/* ---- filters ---- */

namespace {

/* Places of the filters after the first of them, in pgq_retry and pgq_redrive. */
enum FilterArgument
{
	kErrorLike,
	kDiedSince,
	kDiedBefore,
	kFilterGroup,
};

} // namespace

/* Return false also if the function has no such argument: version 0.1 has none for filters. */
static bool
has_filter(FunctionCallInfo fcinfo, int argument)
{
	return argument < PG_NARGS() && given(fcinfo, argument);
}

/* Read the filters, of which argument `first` is the first. Raises 22023, 22025. */
static JobFilter
read_filter(FunctionCallInfo fcinfo, int first)
{
	JobFilter filter = {{TEXTOID, 0, true},
						{TIMESTAMPTZOID, 0, true},
						{TIMESTAMPTZOID, 0, true},
						{TEXTOID, 0, true}};
	auto set = [&](SpiArgument *member, FilterArgument argument, auto check) {
		member->is_null = !has_filter(fcinfo, first + argument);
		if (!member->is_null)
			member->value = check(PG_GETARG_DATUM(first + argument));
	};
	auto any_time = [](Datum value) { return value; };
	set(&filter.error_like, kErrorLike,
		[](Datum value) { return checked_pattern(value, "error_like"); });
	set(&filter.since, kDiedSince, any_time);
	set(&filter.before, kDiedBefore, any_time);
	set(&filter.group_key, kFilterGroup, [](Datum value) { return key_value(value, "group_key"); });
	if (!filter.since.is_null && !filter.before.is_null &&
		DatumGetTimestampTz(filter.since.value) > DatumGetTimestampTz(filter.before.value))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("died_since is later than died_before"),
						errhint("died_since is the beginning of the time range.")));
	return filter;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_cancel);
PG_FUNCTION_INFO_V1(pgq_finish);
PG_FUNCTION_INFO_V1(pgq_update);
PG_FUNCTION_INFO_V1(pgq_retry);
PG_FUNCTION_INFO_V1(pgq_redrive);
PG_FUNCTION_INFO_V1(pgq_run_again);

PGDLLEXPORT Datum
pgq_cancel(PG_FUNCTION_ARGS)
{
	start_write("pgq_cancel()");
	const char *state = name_of(cancel_job(DatumGetInt64(required(fcinfo, 0, "job_id"))));
	if (state == nullptr)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(state));
}

/* Return the ids of the jobs that were ended. An id that is listed twice is returned once. */
PGDLLEXPORT Datum
pgq_finish(PG_FUNCTION_ARGS)
{
	start_write("pgq_finish()");
	ResultRows result(fcinfo);
	JobList jobs = read_ids(fcinfo);
	SegmentSet segments(RowExclusiveLock);
	Records records;
	for (int i = 0; i < jobs.n; i++)
		if (finish_job(segments, records, jobs.id(i)))
			result.put(jobs.ids[i]);
	records.write();
	segments.close_unwritten();
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_update(PG_FUNCTION_ARGS)
{
	start_write("pgq_update()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	JobChange change = read_change(fcinfo);
	if (!given(fcinfo, kQueue))
		PG_RETURN_BOOL(update_job(job_id, change, nullptr));
	QueueRef to = queue_for_enqueue(queue_name(PG_GETARG_DATUM(kQueue)));
	change.set(kJobQueueId, Int32GetDatum(to.queue_id));
	PG_RETURN_BOOL(update_job(job_id, change, &to));
}

PGDLLEXPORT Datum
pgq_retry(PG_FUNCTION_ARGS)
{
	start_write("pgq_retry()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	Interval none{};
	Datum delay = given(fcinfo, 1) ? PG_GETARG_DATUM(1) : IntervalPGetDatum(&none);
	(void) duration(delay, "delay");
	PG_RETURN_BOOL(retry_job(job_id, delay, read_filter(fcinfo, 2)));
}

PGDLLEXPORT Datum
pgq_redrive(PG_FUNCTION_ARGS)
{
	start_write("pgq_redrive()");
	char *queue = queue_name(required(fcinfo, 0, "queue"));
	int64 most = given(fcinfo, 1) ? PG_GETARG_INT64(1) : -1;
	if (given(fcinfo, 1) && most < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("max_jobs is out of range"),
				 errhint("max_jobs must be 0 or more.")));
	PG_RETURN_INT64(redrive(queue, most, read_filter(fcinfo, 2)));
}

PGDLLEXPORT Datum
pgq_run_again(PG_FUNCTION_ARGS)
{
	start_write("pgq_run_again()");
	int64 new_id;
	if (!run_again(DatumGetInt64(required(fcinfo, 0, "job_id")), &new_id))
		PG_RETURN_NULL();
	PG_RETURN_INT64(new_id);
}
}
