/*
 * Who has a snapshot that keeps an empty segment from being truncated? README.md in this folder,
 * TRUNCATE, (3). Read from the server's memory: it does not matter who asks, and nobody can put
 * another answer in the way, as of a view.
 */
#pragma once

#include "pg/clock.h"

namespace pgq {

extern bool rotation_waits_for_snapshots;

struct SnapshotHolder
{
	int pid;
	const char *application;
};

/*
 * The next one at or after *next, which begins with 1, of a segment in which no snapshot that was
 * taken since then sees a row. False: there is none.
 */
bool next_snapshot_holder(TimestampTz empty_since, int *next, SnapshotHolder *holder);

/* No transaction has begun later: the clock, unless it has been set back since one did. */
TimestampTz latest_beginning();

} // namespace pgq
