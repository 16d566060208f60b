#include "jobs/job_spec.h"

#include "catalog/values.h"

#include <string_view>

namespace pgq {

static bool is_given(const JobSpec &spec, std::string_view name);

static Datum
delayed_until(const JobSpec &spec, Datum value, TimestampTz now)
{
	if (is_given(spec, "run_at"))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("delay and run_at exclude each other"), errhint("Pass one of them.")));
	return TimestampTzGetDatum(moment_after(now, value, "delay"));
}

static Datum
expires_after(const JobSpec &, Datum value, TimestampTz now)
{
	return TimestampTzGetDatum(moment_after(now, value, "expires_in"));
}

static Datum
checked_run_at(const JobSpec &, Datum value, TimestampTz)
{
	return TimestampTzGetDatum(finite_moment(DatumGetTimestampTz(value), "run_at"));
}

static Datum
checked_max_attempts(const JobSpec &, Datum value, TimestampTz)
{
	return Int32GetDatum(in_range(DatumGetInt32(value), 1, INT32_MAX, "max_attempts"));
}

constexpr JobAttribute job_attributes[kJobAttributes] = {
	{.name = "payload", .type = JSONBOID, .column = kJobPayload, .required = true},
	{.name = "priority", .type = INT4OID, .column = kJobPriority},
	{.name = "delay", .type = INTERVALOID, .column = kJobRunAt, .column_value = delayed_until},
	{.name = "run_at", .type = TIMESTAMPTZOID, .column = kJobRunAt, .column_value = checked_run_at},
	{.name = "group_key", .type = TEXTOID, .later = true},
	{.name = "unique_key", .type = TEXTOID, .later = true},
	{.name = "unique_until", .type = TEXTOID, .later = true, .nothing = "finished"},
	{.name = "unique_for", .type = INTERVALOID, .later = true},
	{.name = "on_conflict", .type = TEXTOID, .later = true, .nothing = "keep"},
	{.name = "headers", .type = JSONBOID, .column = kJobHeaders},
	{.name = "max_attempts",
	 .type = INT4OID,
	 .column = kJobMaxAttempts,
	 .column_value = checked_max_attempts},
	{.name = "expires_in",
	 .type = INTERVALOID,
	 .column = kJobExpiresAt,
	 .column_value = expires_after},
};

static bool
is_given(const JobSpec &spec, std::string_view name)
{
	for (int i = 0; i < kJobAttributes; i++)
		if (name == job_attributes[i].name)
			return spec.given[i];
	return false;
}

NewJob
job_of(int32 queue_id, const JobSpec &spec, TimestampTz now)
{
	NewJob job;
	job.set(kJobQueueId, Int32GetDatum(queue_id));
	job.set(kJobEnqueuedAt, TimestampTzGetDatum(now));
	job.set(kJobRunAt, TimestampTzGetDatum(now));
	job.set(kJobPriority, Int32GetDatum(0));
	job.set(kJobAttempts, Int32GetDatum(0));
	for (int i = 0; i < kJobAttributes; i++)
	{
		if (!spec.given[i])
			continue;
		const JobAttribute &attribute = job_attributes[i];
		Datum value = spec.values[i];
		if (attribute.column_value != nullptr)
			value = attribute.column_value(spec, value, now);
		job.set(attribute.column, value);
	}
	return job;
}

} // namespace pgq
