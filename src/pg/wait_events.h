/* What our processes wait for, by the names that pg_stat_activity shows from PostgreSQL 17 on; 'Extension' before. */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct WaitEvents
{
	uint32 claim;	  /* PgqClaim: a claim that waits for a job */
	uint32 result;	  /* PgqResult: a pgq_result that waits for the end of a job */
	uint32 decision;  /* PgqDecision: a call that waits for the answer of a claim in progress */
	uint32 lock;	  /* PgqLock: a pgq_lock or pgq_run_once that waits for others */
	uint32 rate;	  /* PgqRate: a pgq_take that waits for its time */
	uint32 launcher;  /* PgqLauncher: nothing to do */
	uint32 scheduler; /* PgqScheduler: the same */
};

extern WaitEvents wait_events;

/* When shared memory is made: there are few names for all extensions, so that a later call could fail. */
void name_wait_events();

} // namespace pgq
