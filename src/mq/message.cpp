#include "mq/message.h"

#include "engine/queue_options.h"
#include "engine/token.h"
#include "load/attach.h"
#include "mq/queue.h"
#include "pg/clock.h"

namespace pgq {

const Column message_columns[kMessageColumns] = {
	{"msg_id", kInt8, kOrNull},
	{"read_ct", kInt4, kOrNull},
	{"enqueued_at", kTimestamptz, kOrNull},
	{"last_read_at", kTimestamptz, kOrNull},
	{"vt", kTimestamptz, kOrNull},
	{"message", kJsonb, kOrNull},
	{"headers", kJsonb, kOrNull},
};

bool
last_read_at(int64 fence, TimestampTz *time)
{
	/* The fence is negative if the lease was lost. */
	int64 token = fence < 0 ? -fence : fence;
	*time = time_of_prefix(prefix_of(token));
	return token != 0;
}

TimestampTz
time_of_job(TimestampTz time)
{
	return Max(Min(time, wall_now() + kThousandYears), TimestampTz{0});
}

void
check_read_count(int32 read_ct)
{
	if (read_ct < 0)
		ereport(ERROR, (errcode(ERRCODE_CHECK_VIOLATION), errmsg("read_ct must not be negative")));
}

int64
fence_of(TimestampTz last_read_at)
{
	/* A fence of the future would make new leases of the job stale. */
	int64 prefix = (Max(Min(last_read_at, wall_now()), kYear2020) - kYear2020) / 1000 - 1;
	return greatest_of(Max(prefix, INT64CONST(1)));
}

static Datum
untoasted(const JobRow &row, JobColumn column)
{
	return PointerGetDatum(PG_DETOAST_DATUM_PACKED(row.value(column)));
}

Message
message_of(const JobRow &row)
{
	using enum MessageColumn;
	Message message;
	int32 attempts = DatumGetInt32(row.value(kJobAttempts));
	TimestampTz read_at;
	memset(message.nulls, true, sizeof(message.nulls));
	message.set(kMsgId, Int64GetDatum(message_id(row.job_id())));
	message.set(kReadCt, Int32GetDatum(attempts));
	message.set(kEnqueuedAt, row.value(kJobEnqueuedAt));
	if (attempts > 0 && !row.is_null(kJobFence) &&
		last_read_at(DatumGetInt64(row.value(kJobFence)), &read_at))
		message.set(kLastReadAt, TimestampTzGetDatum(read_at));
	message.set(kVt, row.value(kJobRunAt));
	/* A job needs a payload. The column `progress`, which messages do not use, marks a NULL. */
	if (row.is_null(kJobProgress))
		message.set(kMessage, untoasted(row, kJobPayload));
	if (!row.is_null(kJobHeaders))
		message.set(kHeaders, untoasted(row, kJobHeaders));
	return message;
}

void
copy_values(Message *message, MemoryContext memory)
{
	MemoryContext caller = MemoryContextSwitchTo(memory);
	for (MessageColumn column : {MessageColumn::kMessage, MessageColumn::kHeaders})
		if (Datum value = message->get(column); value != 0)
			message->set(column, datumCopy(value, false, -1));
	MemoryContextSwitchTo(caller);
}

void
show_lease(Message *message, int32 attempt, TimestampTz read_at, TimestampTz end)
{
	using enum MessageColumn;
	message->set(kReadCt, Int32GetDatum(attempt));
	message->set(kLastReadAt, TimestampTzGetDatum(read_at));
	message->set(kVt, TimestampTzGetDatum(end));
}

bool
copy_message_lease(int64 job_id, LeaseCopy *lease)
{
	return copy_lease_of(tables().database, job_id, lease) && !lease->ends_here &&
		   (lease->state == LeaseState::kClaimed || lease->state == LeaseState::kLost ||
			lease->state == LeaseState::kReaping);
}

} // namespace pgq
