#include "pg/wait_events.h"

namespace pgq {

constinit WaitEvents wait_events = {};

void
name_wait_events()
{
	wait_events = {.claim = new_wait_event("PgqClaim"),
				   .result = new_wait_event("PgqResult"),
				   .decision = new_wait_event("PgqDecision"),
				   .lock = new_wait_event("PgqLock"),
				   .rate = new_wait_event("PgqRate"),
				   .launcher = new_wait_event("PgqLauncher"),
				   .scheduler = new_wait_event("PgqScheduler"),
				   .handler = new_wait_event("PgqHandler")};
}

} // namespace pgq
