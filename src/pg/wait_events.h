/*
 * Wait events of the extension. pg_stat_activity shows their names from PostgreSQL 17 on, and
 * 'Extension' in older versions.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct WaitEvents
{
	uint32 claim;	  /* PgqClaim: a claim waits for a job */
	uint32 result;	  /* PgqResult: pgq_result waits for the end of a job */
	uint32 decision;  /* PgqDecision: a call waits until a claim decides about a job */
	uint32 lock;	  /* PgqLock: pgq_lock or pgq_run_once waits for a lock */
	uint32 rate;	  /* PgqRate: pgq_take waits for permits */
	uint32 launcher;  /* PgqLauncher: the launcher is idle */
	uint32 scheduler; /* PgqScheduler: a scheduler or counter is idle */
	uint32 handler;	  /* PgqHandler: a handler's worker waits for a job */
};

extern WaitEvents wait_events;

/*
 * Name the wait events. Called when shared memory is created: the server has few names for all
 * extensions, so a later call could fail.
 */
void name_wait_events();

} // namespace pgq
