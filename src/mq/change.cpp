#include "mq/change.h"

#include "catalog/owner_sql.h"
#include "engine/token.h"
#include "jobs/change.h"
#include "jobs/finish.h"
#include "load/attach.h"
#include "pg/clock.h"
#include "pg/stop_point.h"
#include "steps/permission.h"
#include "steps/waiting.h"

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
 * reads and the time of the last one, and becomes due at `vt`; DT_NOEND: when the lease would have ended.
 * So the change is a part of this transaction, unlike pgq_extend(). Returns false if the message has no
 * lease.
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
	failure.retry_at = vt == DT_NOEND ? lease.expires_at : vt;
	return fail_job(job_id, failure) == AttemptEnd::kRetry;
}

/*
 * A change has found neither a lease nor a waiting message. Return whether the message exists, and let its
 * lease reach the next state before the caller tries again. A message has a lease or waits, so a later try
 * succeeds. Raises 42501 if the caller may not end the lease: that takes the right to claim, too, if the
 * queue is closed. If the queue was dropped by SQL, jobs_of() raises an error.
 */
static bool
may_try_again(const MessageQueue &queue, int64 msg_id)
{
	Message message;
	VirtualTransactionId nobody;
	char name[kQueueNameMax + 1] = "";
	if (!read_message(queue, msg_id, true, &message))
		return false;
	(void) copy_name(jobs_of(queue), name);
	require_right(Permission::kAnswer, queue.queue_id, name);
	SetInvalidVirtualTransactionId(nobody);
	wait_for_transaction(nobody);
	return true;
}

bool
set_message_time(const MessageQueue &queue, int64 msg_id, TimestampTz vt)
{
	int64 job_id = queue.job_id(msg_id);
	JobChange change{};
	vt = time_of_job(vt);
	change.set(kJobRunAt, TimestampTzGetDatum(vt));
	if (!queue.has(msg_id))
		return false;
	/* The message may be read, or its lease may end, between these steps. */
	while (!delay_leased(job_id, vt) && !update_job(job_id, change, nullptr))
		if (!may_try_again(queue, msg_id))
			return false;
	return true;
}

/*
 * Write these columns, without the time, which another transaction may have changed since the caller has
 * read it. If the message is being read, first end its lease.
 */
static bool
write_columns(const MessageQueue &queue, int64 msg_id, const JobChange &change)
{
	int64 job_id = queue.job_id(msg_id);
	while (!update_job(job_id, change, nullptr))
		if (!delay_leased(job_id, DT_NOEND) && !may_try_again(queue, msg_id))
			return false;
	return true;
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
	/* Set the time, if it differs, which ends the lease; then write the other columns that differ. */
	using enum MessageColumn;
	int64 msg_id = DatumGetInt64(before.get(kMsgId));
	JobChange change{};
	Message message;
	check_read_count(DatumGetInt32(after.get(kReadCt)));
	if (differs(before, after, kVt) &&
		!set_message_time(queue, msg_id, DatumGetTimestampTz(after.get(kVt))))
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
	return change.any() ? write_columns(queue, msg_id, change)
						: read_message(queue, msg_id, true, &message);
}

/* ---- reading without a lease ---- */

/* Return whether no claim and no other transaction has the message. */
static bool
is_free(int64 job_id)
{
	LeaseCopy lease;
	return !copy_lease_of(tables().database, job_id, &lease) || lease.ends_here;
}

static bool
contains(const JobRow &row, Datum condition)
{
	return row.is_null(kJobProgress) &&
		   DatumGetBool(DirectFunctionCall2(jsonb_contains, row.value(kJobPayload), condition));
}

/* Lock the message, without waiting. Returns false if it cannot be locked, or cannot be read any more. */
static bool
lock_if_readable(const MessageQueue &queue, Datum condition, int64 job_id)
{
	JobRow row;
	SegmentSet segments(RowExclusiveLock);
	bool readable = lock_job_to_change_now(segments, Place{}, job_id, &row) == WriteResult::kDone &&
					row.queue_id() == queue.queue_id &&
					DatumGetTimestampTz(row.value(kJobRunAt)) <= wall_now() &&
					(condition == 0 || contains(row, condition)) && is_free(job_id);
	segments.close();
	return readable;
}

/* Open a cursor for the ids of messages that can be read now, in order. */
static Portal
open_readable(const MessageQueue &queue, Datum condition)
{
	const SpiArgument arguments[] = {{INT4OID, Int32GetDatum(queue.queue_id), false},
									 {JSONBOID, condition, condition == 0}};
	return spi_open("SELECT j.job_id FROM pgq_ext.job j"
					" WHERE j.queue_id OPERATOR(pg_catalog.=) $1"
					" AND j.run_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()"
					" AND ($2 IS NULL OR (j.payload OPERATOR(pg_catalog.@>) $2"
					" AND j.progress IS NULL))"
					" AND NOT pgq_ext.is_leased(j.job_id)"
					" AND NOT EXISTS (SELECT FROM pgq_ext.lease_of(j.job_id))"
					" ORDER BY j.priority DESC, j.run_at, j.job_id",
					arguments);
}

/*
 * Lock messages that can be read now, in the order of their ids, and leave out those that other
 * transactions have locked or read. Fills `ids` with the ids of their jobs, and returns their number.
 * FOR UPDATE SKIP LOCKED cannot do this: it raises an error if a message was moved to another segment
 * after the statement has begun.
 */
static int
lock_readable(const MessageQueue &queue, Datum condition, int most, int64 *ids)
{
	int locked = 0;
	as_owner_to_read([&] {
		MemoryContext scratch =
			AllocSetContextCreate(CurrentMemoryContext, "pgmq messages", ALLOCSET_DEFAULT_SIZES);
		/* An index has the order, so the first fetch need not read the whole queue. */
		read_in_order();
		Portal cursor = open_readable(queue, condition);
		/* Fetch as many ids as messages are still wanted, and lock their messages, until there are no more. */
		for (int n = 1; n > 0 && locked < most;)
		{
			n = static_cast<int>(spi_fetch(cursor, most - locked));
			stop_point("messages-found");
			for (int i = 0; i < n; i++)
			{
				int64 job_id = DatumGetInt64(spi_value(i, 1, INT8OID));
				MemoryContext caller = MemoryContextSwitchTo(scratch);
				if (lock_if_readable(queue, condition, job_id))
					ids[locked++] = job_id;
				MemoryContextSwitchTo(caller);
				MemoryContextReset(scratch);
				CHECK_FOR_INTERRUPTS();
			}
			SPI_freetuptable(SPI_tuptable);
		}
		SPI_cursor_close(cursor);
		MemoryContextDelete(scratch);
	});
	return locked;
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
	stop_point("take-message");
	return free && update_job(job_id, change, nullptr, true) &&
		   read_message(queue, msg_id, false, message);
}

/*
 * Lock at most `most` messages that can be read now, and call take(job_id, &message) for each one. Returns
 * how many calls have returned true, and their messages in `messages`. The memory that a call has used is
 * freed after the call.
 */
template <typename Take>
static int
for_each_readable(const MessageQueue &queue, Datum condition, int most, Message *messages,
				  Take take)
{
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgmq messages", ALLOCSET_DEFAULT_SIZES);
	auto *ids = static_cast<int64 *>(palloc(Max(most, 1) * sizeof(int64)));
	int n = lock_readable(queue, condition, most, ids);
	int taken = 0;
	for (int i = 0; i < n; i++)
	{
		MemoryContext caller = MemoryContextSwitchTo(scratch);
		bool is_taken = take(ids[i], &messages[taken]);
		MemoryContextSwitchTo(caller);
		if (is_taken)
			copy_values(&messages[taken++], caller);
		MemoryContextReset(scratch);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextDelete(scratch);
	pfree(ids);
	return taken;
}

int
take_messages(const MessageQueue &queue, Datum condition, int most, int64 vt, Message *messages)
{
	return for_each_readable(queue, condition, most, messages, [&](int64 job_id, Message *message) {
		return take_message(queue, message_id(job_id), vt, message);
	});
}

int
end_messages(const MessageQueue &queue, int most, Message *messages)
{
	/* A claim that had read the row before it was locked may have handed the message out. */
	return for_each_readable(queue, Datum{0}, most, messages, [&](int64 job_id, Message *message) {
		return is_free(job_id) && end_message(queue, message_id(job_id), message);
	});
}

} // namespace pgq
