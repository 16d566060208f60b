/*
 * Runs: what is to be done once, or once in each period. A run is a lock of a name and a bucket of time; whether it has been
 * done is a row of pgq_ext.run, which is looked at with the lock in hand, and written in the transaction of the work.
 */
#pragma once

#include "sync/lock.h"

namespace pgq {

/* Called by _PG_init. */
void runs_init();

/* When the period began that time is in. */
TimestampTz bucket_of(TimestampTz time, int64 period);

/* The token, or 0: it is done, or being done. period: as it was passed; of a run for ever it is not there. */
int64 begin_run(const LockWish &wish, const Datum *period);

/* False: stale. result: NULL, or a jsonb. */
bool finish_run(const char *name, int64 token, const Datum *result);

} // namespace pgq
