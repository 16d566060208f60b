#include "mq/send.h"

#include "enqueue/enqueue.h"
#include "pg/clock.h"
#include "rows/job_ids.h"
#include "steps/depth.h"

namespace pgq {

/*
 * Return the priority of a message. Jobs with a greater priority are handed out first, so messages
 * are read in the order of their ids, up to the 4,294,967,295th message of a queue.
 */
static int32
priority_of(int64 msg_id)
{
	return static_cast<int32>(Max(INT64CONST(2147483647) - msg_id, INT64CONST(-2147483648)));
}

static Datum
jsonb_of(const char *json)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json));
}

static NewJob
job_of_message(const MessageQueue &queue, const NewMessage &message, int64 msg_id, TimestampTz now,
			   TimestampTz vt)
{
	NewJob job;
	job.set(kJobId, Int64GetDatum(queue.job_id(msg_id)));
	job.set(kJobQueueId, Int32GetDatum(queue.queue_id));
	job.set(kJobEnqueuedAt, TimestampTzGetDatum(now));
	job.set(kJobRunAt, TimestampTzGetDatum(vt));
	job.set(kJobPriority, Int32GetDatum(priority_of(msg_id)));
	job.set(kJobAttempts, Int32GetDatum(0));
	/* A job needs a payload, so a mark says that the message is NULL: see message_of(). */
	job.set(kJobPayload, message.message != 0 ? message.message : jsonb_of("null"));
	if (message.message == 0)
		job.set(kJobProgress, jsonb_of("null"));
	if (message.headers != 0)
		job.set(kJobHeaders, message.headers);
	return job;
}

/* Draw the ids of n new messages, in ascending order. */
static void
next_ids(const MessageQueue &queue, int64 *ids, int n)
{
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(queue.sequence)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the sequence of queue \"%s\" was dropped", get_rel_name(queue.view)),
				 errhint("Drop the queue with pgmq.drop_queue(), and create it again.")));
	draw_values(queue.sequence, ids, n);
	for (int i = 0; i < n; i++)
		if (!queue.has(ids[i]))
			ereport(ERROR,
					(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
					 errmsg("message id %lld is out of range", static_cast<long long>(ids[i])),
					 errdetail("The ids of a queue are greater than 0 and less than %lld.",
							   static_cast<long long>(kMessageIds))));
}

void
send_messages(const MessageQueue &queue, const NewMessage *messages, int n, TimestampTz vt,
			  int64 *ids)
{
	QueueRef ref;
	NewJob batch[kInsertBatch];
	TimestampTz now = wall_now();
	vt = Max(time_of_job(vt), now);
	if (!queue_for_publish(queue.queue_id, &ref))
		(void) jobs_of(queue); /* raises the error */
	enter_queue(ref, n);
	for (int done = 0; done < n;)
	{
		int part = Min(n - done, kInsertBatch);
		CHECK_FOR_INTERRUPTS();
		next_ids(queue, ids + done, part);
		for (int i = 0; i < part; i++)
			batch[i] = job_of_message(queue, messages[done + i], ids[done + i], now, vt);
		enqueue_jobs(ref, batch, part, nullptr);
		done += part;
	}
}

void
insert_message(const MessageQueue &queue, Message *message, bool adopt)
{
	using enum MessageColumn;
	QueueRef ref;
	check_read_count(DatumGetInt32(message->get(kReadCt)));
	if (!queue_for_publish(queue.queue_id, &ref))
		(void) jobs_of(queue); /* raises the error */
	if (!adopt)
	{
		int64 id;
		next_ids(queue, &id, 1);
		message->set(kMsgId, Int64GetDatum(id));
	}
	NewJob job = job_of_message(queue, {message->get(kMessage), message->get(kHeaders)},
								DatumGetInt64(message->get(kMsgId)),
								time_of_job(DatumGetTimestampTz(message->get(kEnqueuedAt))),
								time_of_job(DatumGetTimestampTz(message->get(kVt))));
	job.set(kJobAttempts, message->get(kReadCt));
	if (message->get(kLastReadAt) != 0)
		job.set(kJobFence, Int64GetDatum(fence_of(DatumGetTimestampTz(message->get(kLastReadAt)))));
	enter_queue(ref, 1);
	enqueue_jobs(ref, &job, 1, nullptr);
}

} // namespace pgq
