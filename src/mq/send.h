/* Inserting messages. */
#pragma once

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

} // namespace pgq
