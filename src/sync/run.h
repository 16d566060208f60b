/*
 * Runs: tasks that are done once, or once in each period. A run is a named lock whose key also
 * contains the begin of the period. A row of pgq_ext.run says whether the run is done. The row is
 * read after the lock is taken, and written in the transaction that does the work.
 */
#pragma once

#include "sync/lock.h"

namespace pgq {

/* Define the setting keep_runs. Called by _PG_init. */
void runs_init();

/* Return the begin of the period that contains `time`. */
TimestampTz bucket_of(TimestampTz time, int64 period);

/*
 * Begin a run. Returns the token, or 0 if the run is done or another session is doing it. period:
 * as the caller passed it; nullptr for a run without a period.
 */
int64 begin_run(const LockWish &wish, const Datum *period);

/* Mark the run as done, with its result (jsonb) or nullptr. Returns false if the token is stale. */
bool finish_run(const char *name, int64 token, const Datum *result);

} // namespace pgq
