/*
 * Message queues. The name of a queue leads to its view, and the OID of the view is the identity of
 * the queue. The table pgmq.queue_slot has the slot of each view.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/* The number of message ids of a queue. Job ids that pgq_ext gives out itself are smaller. */
inline constexpr int64 kMessageIds = INT64CONST(1) << 40;
inline constexpr int kMessageSlots = 8191;

struct MessageQueue
{
	Oid view;
	Oid sequence; /* of message ids */
	int32 slot;
	int32 queue_id; /* of the queue of pgq_ext that has the messages as jobs */

	int64 job_id(int64 msg_id) const { return slot * kMessageIds + msg_id; }
	bool has(int64 msg_id) const { return msg_id > 0 && msg_id < kMessageIds; }
};

constexpr int64
message_id(int64 job_id)
{
	return job_id % kMessageIds;
}

/*
 * Find the queue with that name. schema: the schema of the calling function. needed: the privileges
 * on the view that the caller needs, for example ACL_INSERT to send. Raises 42P01 if there is no such
 * view, 42501, and 55000 if the view belongs to no queue.
 */
MessageQueue find_message_queue(Oid schema, const text *name, AclMode needed);

/*
 * Find the queue with that view, without a check of privileges. Raises 55000 if the view belongs to no
 * queue.
 */
MessageQueue message_queue_of(Oid schema, Oid view);

/* Find the queue of pgq_ext that has the messages. Raises 42P01 if it was dropped. */
QueueRef jobs_of(const MessageQueue &queue);

/* Return whether the current role may read the messages of the slot of that job. */
bool may_read_message(Oid schema, int64 job_id);

} // namespace pgq
