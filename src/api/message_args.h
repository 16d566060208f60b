/* Arguments of the functions of the extension pgmq. */
#pragma once

#include "mq/queue.h"

namespace pgq {

/*
 * Raise 42501 if the queue of pgq_ext is closed (pgq_grant) to the caller. The functions that change
 * jobs would answer as if there were no message.
 */
void require_change(const MessageQueue &queue);

/*
 * Return the queue that the first argument names. needed: the privileges on its view that the caller
 * needs; ACL_UPDATE and ACL_DELETE also need require_change(). Raises the errors of
 * find_message_queue(), and 22004.
 */
MessageQueue message_queue(FunctionCallInfo fcinfo, AclMode needed);

/* Send the notifications that pgmq.enable_notify_insert() has asked for, after an insert. */
void notify_of_insert(FunctionCallInfo fcinfo, const MessageQueue &queue);

} // namespace pgq
