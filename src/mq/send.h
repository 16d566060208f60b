/* Inserting messages. */
#pragma once

#include "mq/message.h"
#include "mq/queue.h"

namespace pgq {

/* A new message. NULL values have the address 0. */
struct NewMessage
{
	Datum message; /* jsonb */
	Datum headers; /* jsonb */
};

/*
 * Insert n messages, which can be read from `vt` on. ids: receives their ids, in the order of the
 * messages. Raises 42P01 if the queue of pgq_ext was dropped, and PQ002 if it is full.
 */
void send_messages(const MessageQueue &queue, const NewMessage *messages, int n, TimestampTz vt,
				   int64 *ids);

/*
 * Insert the message that SQL has inserted into the view of the queue, with all values of *message
 * but the id. Draws an id and stores it in *message. adopt: the message has an id, and keeps it.
 */
void insert_message(const MessageQueue &queue, Message *message, bool adopt);

} // namespace pgq
