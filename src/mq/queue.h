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
	int32 slot;
	int32 queue_id; /* of the queue of pgq_ext that has the messages as jobs */
	Oid sequence;	/* of message ids */

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

/*
 * Find the queue with that name, of whose view the caller may read any column. Raises 42P01, 42501,
 * 55000.
 */
MessageQueue find_readable_queue(Oid schema, const text *name);

/* Return the view of the slot of that job; InvalidOid if there is none. */
Oid view_of_message(Oid schema, int64 job_id);

/* Return whether the current role may read that column of the view; nullptr: any column. */
bool may_read_column(Oid view, const char *column);

} // namespace pgq
