/* Messages by their ids. */
#pragma once

#include "mq/message.h"
#include "mq/queue.h"

namespace pgq {

/*
 * Read the message, as this transaction sees it. Returns false if there is none. With `wait`, waits
 * for a transaction that is changing the row.
 */
bool read_message(const MessageQueue &queue, int64 msg_id, bool wait, Message *message);

/* End the message. Returns false if there is none. *message: receives the message, unless null. */
bool end_message(const MessageQueue &queue, int64 msg_id, Message *message);

/*
 * Set the time from which the message can be read, whether it is being read or not. A rollback undoes
 * the change. Returns false if there is no such message.
 */
bool set_message_time(const MessageQueue &queue, int64 msg_id, TimestampTz vt);

/*
 * Change a message as an UPDATE of the view of the queue does. If the message is being read, its lease
 * ends, and the message can be read again at its vt. Returns false if there is no such message.
 */
bool change_message(const MessageQueue &queue, const Message &before, const Message &after);

/*
 * Reads that write the row instead of taking a lease. They do what a claim cannot do: reads with a
 * time of 0, with a condition, or of messages that this transaction has sent. A claim that looks at
 * such a message finds its row locked. vt: microseconds for which no other read gets the message.
 *
 * take_message() reads one message, and returns false if it cannot be read now. take_messages() reads
 * at most `most` messages whose bodies contain `condition` (jsonb; 0: any body). end_messages() ends at
 * most `most` messages that can be read now. Both return the number of messages.
 */
bool take_message(const MessageQueue &queue, int64 msg_id, int64 vt, Message *message);
int take_messages(const MessageQueue &queue, Datum condition, int most, int64 vt,
				  Message *messages);
int end_messages(const MessageQueue &queue, int most, Message *messages);

} // namespace pgq
