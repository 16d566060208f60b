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
 * Insert the messages, which can be read from `vt` on. ids: receives their ids, in the order of the
 * messages. Raises 42P01, PQ002.
 */
void send_messages(const MessageQueue &queue, const NewMessage *messages, int n, TimestampTz vt,
				   int64 *ids);

/*
 * Insert a message that SQL has inserted into the view of the queue: with the values of *message, of
 * which only the id is NULL. Sets the id. adopt: keep the id that the message has.
 */
void insert_message(const MessageQueue &queue, Message *message, bool adopt);

} // namespace pgq
