/*
 * What interrupts the call of a handler: its timeout, a cancel of its job, a stop of the server.
 *
 * A handler can catch the error of a cancelled query. So the call is cancelled again each second,
 * and 10 s after the first cancel the process ends. The timer ends when the transaction of the call
 * is about to commit: from then on the call counts as done.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Install the handlers of signals. Called once, when the worker starts. */
void call_timer_init();

/* Why the call that was running last was interrupted. */
enum class Interrupted : uint8
{
	kNo,
	kTimeout,
	kCancelled, /* pgq_cancel */
	kStopping,	/* the server stops */
};

/* Watch over a call that may take `timeout` microseconds. */
void begin_watching(int64 timeout);

/* End the watch, and forget a cancel that was not served. Returns why the call was interrupted. */
Interrupted end_watching();

/* Return whether the server is stopping, and has asked this process to end. */
bool must_stop();

} // namespace pgq
