/* The error of a handler's call, and whose fault it is. */
#pragma once

#include "engine/queue.h"
#include "worker/call_timer.h"

namespace pgq {

struct CallError
{
	int sqlstate;
	bool stale; /* a lease was not current any more, so neither job nor server is the cause */
	Interrupted interrupted;
	const char *message;
	const char *text; /* text for last_error of the job: message, SQLSTATE and context */
};

/*
 * Keep the error that was caught, in that memory, and abort the transaction. timeout: of the call,
 * in microseconds.
 */
CallError take_error(MemoryContext memory, int64 timeout);

/*
 * Return whether the error says that the server lacks something. Such an error is not the fault of
 * the handler.
 */
bool is_servers_fault(int sqlstate);

/* Return whether another transaction is the reason, so that the call should be repeated at once. */
bool is_conflict(const CallError &error);

/*
 * After an error of a claim: abort, log the error at most once a minute, and let the queue's
 * handler rest.
 */
void note_claim_error(const QueueRef &ref);

} // namespace pgq
