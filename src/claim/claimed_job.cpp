#include "claim/claimed_job.h"

#include "catalog/values.h"

namespace pgq {

const Column claimed_columns[kClaimedColumns] = {
	{"job_id", kInt8},		  {"lease", kInt8},
	{"queue", kText},		  {"payload", kJsonb},
	{"headers", kJsonb},	  {"group_key", kText},
	{"priority", kInt4},	  {"attempt", kInt4},
	{"max_attempts", kInt4},  {"enqueued_at", kTimestamptz},
	{"run_at", kTimestamptz}, {"lease_expires_at", kTimestamptz},
	{"last_error", kText},	  {"progress", kJsonb},
};

static Datum
queue_name_of(const QueueRef &ref)
{
	QueueName queue;
	(void) read_name(ref.queue, &queue);
	return CStringGetTextDatum(queue.text);
}

/* Return the value of a column of the row that is passed on as it is. */
static Datum
stored_value(const JobRow &row, JobColumn column, bool *is_null)
{
	*is_null = row.is_null(column);
	return row.value(column);
}

/* Like stored_value(), for a column of variable length, whose value is detoasted. */
static Datum
detoasted_value(const JobRow &row, JobColumn column, bool *is_null)
{
	*is_null = row.is_null(column);
	return *is_null ? Datum{0} : PointerGetDatum(PG_DETOAST_DATUM_PACKED(row.value(column)));
}

static Datum
last_error_of(const JobRow &row, bool *is_null)
{
	*is_null = row.is_null(kJobLastError);
	return *is_null ? Datum{0} : clipped_error(row.value(kJobLastError));
}

Datum
claimed_value(ClaimedColumn column, const ClaimedJob &job, bool *is_null)
{
	using enum ClaimedColumn;
	*is_null = false;
	switch (column)
	{
		case kJobId:
			return stored_value(job.row, JobColumn::kJobId, is_null);
		case kLease:
			return Int64GetDatum(job.ready.token);
		case kQueue:
			return queue_name_of(job.ref);
		case kPayload:
			return detoasted_value(job.row, kJobPayload, is_null);
		case kHeaders:
			return detoasted_value(job.row, kJobHeaders, is_null);
		case kGroupKey:
			return detoasted_value(job.row, kJobGroupKey, is_null);
		case kPriority:
			return stored_value(job.row, kJobPriority, is_null);
		case kAttempt:
			return Int32GetDatum(job.ready.hand_out.attempt);
		case kMaxAttempts:
			return Int32GetDatum(job.row.max_attempts(job.options.max_attempts));
		case kEnqueuedAt:
			return stored_value(job.row, kJobEnqueuedAt, is_null);
		case kRunAt:
			return stored_value(job.row, kJobRunAt, is_null);
		case kLeaseExpiresAt:
			return TimestampTzGetDatum(job.ready.lease_expires_at());
		case kLastError:
			return last_error_of(job.row, is_null);
		case kProgress:
			return detoasted_value(job.row, kJobProgress, is_null);
		case kColumns:
			break;
	}
	/* A column of a later version, which this library does not know. */
	*is_null = true;
	return Datum{0};
}

} // namespace pgq
