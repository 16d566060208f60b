#include "mq/change.h"

#include "catalog/owner_sql.h"
#include "engine/token.h"
#include "jobs/change.h"
#include "jobs/finish.h"
#include "load/attach.h"
#include "pg/clock.h"
#include "steps/permission.h"

namespace pgq {

bool
read_message(const MessageQueue &queue, int64 msg_id, bool wait, Message *message)
{
	JobRow row;
	int64 job_id = queue.job_id(msg_id);
	SegmentSet segments(RowExclusiveLock);
	bool found = queue.has(msg_id) &&
				 locate_job(segments, Place{}, job_id, wait, &row) == WriteResult::kDone;
	if (found)
		*message = message_of(row);
	segments.close_unwritten();
	LeaseCopy lease;
	if (found && copy_message_lease(job_id, &lease))
		show_lease(message, lease.attempt, lease.claimed_at, lease.expires_at);
	return found;
}

bool
end_message(const MessageQueue &queue, int64 msg_id, Message *message)
{
	JobRow row;
	LeaseCopy lease;
	int64 job_id = queue.job_id(msg_id);
	if (!queue.has(msg_id))
		return false;
	SegmentSet segments(RowExclusiveLock);
	Records records;
	bool ended = finish_job(segments, records, job_id, message != nullptr ? &row : nullptr);
	/* Read the row that was deleted: SQL may have changed the message until then. */
	if (ended && message != nullptr)
	{
		*message = message_of(row);
		if (copy_lease_of(tables().database, job_id, &lease) && lease.state == LeaseState::kClaimed)
			show_lease(message, lease.attempt, lease.claimed_at, lease.expires_at);
	}
	records.write();
	segments.close_unwritten();
	return ended;
}

/*
 * End the lease of a message that is being read, as a failed attempt: the row keeps the number of
 * reads and the time of the last one, and becomes due at `vt`. So the change is a part of this
 * transaction, unlike pgq_extend(). Returns false if the message has no lease.
 */
static bool
delay_leased(int64 job_id, TimestampTz vt)
{
	LeaseCopy lease;
	if (!copy_message_lease(job_id, &lease) || lease.state != LeaseState::kClaimed)
		return false;
	Failure failure{};
	failure.fence = lease.token;
	failure.retry = true;
	failure.retry_at = vt;
	return fail_job(job_id, failure) == AttemptEnd::kRetry;
}

bool
set_message_time(const MessageQueue &queue, int64 msg_id, TimestampTz vt)
{
	int64 job_id = queue.job_id(msg_id);
	Message message;
	JobChange change{};
	vt = time_of_job(vt);
	change.set(kJobRunAt, TimestampTzGetDatum(vt));
	/*
	 * A message may be read, or its lease may end, between these steps. Then try again. A message that
	 * exists has a lease or waits, so one of the two steps succeeds in the end. If its queue was dropped
	 * by SQL, jobs_of() raises an error.
	 */
	while (queue.has(msg_id) && !delay_leased(job_id, vt) && !update_job(job_id, change, nullptr))
	{
		if (!read_message(queue, msg_id, true, &message))
			return false;
		/* To end a lease takes the right to claim, too, if the queue is closed. */
		char name[kQueueNameMax + 1] = "";
		(void) copy_name(jobs_of(queue), name);
		require_right(Permission::kAnswer, queue.queue_id, name);
		CHECK_FOR_INTERRUPTS();
	}
	return queue.has(msg_id);
}

/* Return whether the column has another value. */
static bool
differs(const Message &before, const Message &after, MessageColumn column)
{
	bool by_reference = column == MessageColumn::kMessage || column == MessageColumn::kHeaders;
	Datum old_value = before.get(column);
	Datum new_value = after.get(column);
	if (by_reference && old_value != 0 && new_value != 0)
		return !datum_image_eq(old_value, new_value, false, -1);
	return old_value != new_value;
}

bool
change_message(const MessageQueue &queue, const Message &before, const Message &after)
{
	/* Set the time, which ends the lease; then collect the columns that differ, and write them. */
	using enum MessageColumn;
	int64 msg_id = DatumGetInt64(before.get(kMsgId));
	TimestampTz vt = DatumGetTimestampTz(after.get(kVt));
	JobChange change{};
	check_read_count(DatumGetInt32(after.get(kReadCt)));
	if (!set_message_time(queue, msg_id, vt))
		return false;
	if (differs(before, after, kReadCt))
		change.set(kJobAttempts, after.get(kReadCt));
	if (differs(before, after, kEnqueuedAt))
		change.set(kJobEnqueuedAt,
				   TimestampTzGetDatum(time_of_job(DatumGetTimestampTz(after.get(kEnqueuedAt)))));
	if (differs(before, after, kMessage))
	{
		Datum null = DirectFunctionCall1(jsonb_in, CStringGetDatum("null"));
		change.set(kJobPayload, after.get(kMessage) != 0 ? after.get(kMessage) : null);
		change.set(kJobProgress, null);
		if (after.get(kMessage) != 0)
			change.set_null(kJobProgress);
	}
	if (differs(before, after, kHeaders))
	{
		change.set(kJobHeaders, after.get(kHeaders));
		if (after.get(kHeaders) == 0)
			change.set_null(kJobHeaders);
	}
	return !change.any() || update_job(queue.job_id(msg_id), change, nullptr);
}

/* ---- reading without a lease ---- */

/* Return whether no claim and no other transaction has the message. */
static bool
is_free(int64 job_id)
{
	LeaseCopy lease;
	return !copy_lease_of(tables().database, job_id, &lease) || lease.ends_here;
}

/*
 * Lock messages that can be read now, in the order of their ids, and leave out those that other
 * transactions have locked or read. Fills `ids` with the ids of their jobs, and returns their number.
 */
static int
lock_readable(const MessageQueue &queue, Datum condition, int most, int64 *ids)
{
	const SpiArgument arguments[] = {{INT4OID, Int32GetDatum(queue.queue_id), false},
									 {JSONBOID, condition, condition == 0},
									 {INT4OID, Int32GetDatum(most), false}};
	int n = 0;
	as_owner([&] {
		n = static_cast<int>(
			spi_execute("SELECT j.job_id FROM pgq_ext.job j"
						" WHERE j.queue_id OPERATOR(pg_catalog.=) $1"
						" AND j.run_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()"
						" AND ($2 IS NULL OR (j.payload OPERATOR(pg_catalog.@>) $2"
						" AND j.progress IS NULL))"
						" AND NOT pgq_ext.is_leased(j.job_id)"
						" AND NOT EXISTS (SELECT FROM pgq_ext.lease_of(j.job_id))"
						" ORDER BY j.priority DESC, j.run_at, j.job_id"
						" LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED",
						arguments));
		for (int i = 0; i < n; i++)
			ids[i] = DatumGetInt64(spi_value(i, 1, INT8OID));
	});
	return n;
}

bool
take_message(const MessageQueue &queue, int64 msg_id, int64 vt, Message *message)
{
	JobRow row;
	int64 job_id = queue.job_id(msg_id);
	TimestampTz now = wall_now();
	if (!queue.has(msg_id))
		return false;
	SegmentSet segments(RowExclusiveLock);
	bool free = locate_job(segments, Place{}, job_id, false, &row) == WriteResult::kDone &&
				DatumGetTimestampTz(row.value(kJobRunAt)) <= now && is_free(job_id);
	JobChange change{};
	if (free)
	{
		change.set(kJobRunAt, TimestampTzGetDatum(now + vt));
		change.set(kJobFence, Int64GetDatum(greatest_of(prefix_of_clock() - 1)));
	}
	segments.close_unwritten();
	return free && update_job(job_id, change, nullptr, true) &&
		   read_message(queue, msg_id, false, message);
}

int
take_messages(const MessageQueue &queue, Datum condition, int most, int64 vt, Message *messages)
{
	auto *ids = static_cast<int64 *>(palloc(Max(most, 1) * sizeof(int64)));
	int n = lock_readable(queue, condition, most, ids);
	int taken = 0;
	for (int i = 0; i < n; i++)
		taken += take_message(queue, message_id(ids[i]), vt, &messages[taken]);
	pfree(ids);
	return taken;
}

int
end_messages(const MessageQueue &queue, int most, Message *messages)
{
	auto *ids = static_cast<int64 *>(palloc(Max(most, 1) * sizeof(int64)));
	int n = lock_readable(queue, Datum{0}, most, ids);
	int ended = 0;
	/* A claim that had read the row before it was locked may have handed the message out. */
	for (int i = 0; i < n; i++)
		ended += is_free(ids[i]) && end_message(queue, message_id(ids[i]), &messages[ended]);
	pfree(ids);
	return ended;
}

} // namespace pgq
