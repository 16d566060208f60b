/* Arguments of the functions of the extension pgmq. */
#pragma once

#include "mq/queue.h"

namespace pgq {

/*
 * Return the queue that the first argument names. needed: the privileges on its view that the caller
 * needs. Raises the errors of find_message_queue(), and 22004.
 */
MessageQueue message_queue(FunctionCallInfo fcinfo, AclMode needed);

/* Send the notifications that pgmq.enable_notify_insert() has asked for, after an insert. */
void notify_of_insert(FunctionCallInfo fcinfo, const MessageQueue &queue);

} // namespace pgq
