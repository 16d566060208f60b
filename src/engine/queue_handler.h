/*
 * The part of a queue's slot about the handler of the queue: whether background workers run the
 * jobs of the queue, how many of them may do so at a time, and what came of their calls.
 *
 * The scheduler of the database writes the handler's definition (HandlerSetup) into the slot. A
 * worker has one place (HandlerPace) at most. The scheduler takes the first place for the worker
 * that it starts; later the worker itself gives its place back, and takes a place of another queue.
 *
 * Everything here is protected by the queue's lock, and no function can fail.
 */
#pragma once

#include "core/handler_pace.h"
#include "pg/clip.h"

namespace pgq {

/* The definition of the handler as the scheduler has last read it. */
struct HandlerSetup
{
	enum State : uint8
	{
		kNone,
		kActive,
		kPaused,
		kSuspended, /* the handler cannot run, for the reason in `reason` */
	};
	State state;
	Oid run_as;
	int32 workers;
	TimestampTz set_at; /* when the handler was last set or resumed */
	char reason[256];	/* why the handler is suspended, for views */

	bool operator==(const HandlerSetup &other) const
	{
		return state == other.state && run_as == other.run_as && workers == other.workers &&
			   set_at == other.set_at && strcmp(reason, other.reason) == 0;
	}
};

struct QueueHandler : HandlerPace
{
	HandlerSetup setup;
	TimestampTz since; /* time at which the state of `setup` began */
	bool wants_slot;   /* the last start failed because no worker slot was free */
	int64 served_at;   /* monotonic: when a worker has last taken a place; 0: never */
	char last_error[256];

	/* Store the definition that was read, and restart the pace if the definition differs. */
	void set_up(const HandlerSetup &read, TimestampTz now)
	{
		if (setup == read)
			return;
		if (setup.state != read.state)
			since = now;
		restart(read.state == HandlerSetup::kActive ? read.workers : 0);
		setup = read;
	}

	void note_call(const CallResult &call, int64 monotonic, TimestampTz now)
	{
		HandlerPace::note_call(call, monotonic, now);
		if (call.failed)
			copy_clipped(last_error, call.error);
	}
};
static_assert(std::is_trivially_copyable_v<QueueHandler>);

} // namespace pgq
