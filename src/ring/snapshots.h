/*
 * Sessions with a snapshot that keeps an empty segment from being truncated: see README.md in this
 * folder, TRUNCATE, (3). They are read from the server's memory, so the answer does not depend on
 * the caller's rights and cannot be changed by replacing a view.
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
 * Find the next such session, at entry *next or later; *next starts at 1. Snapshots taken after
 * empty_since see no row of the segment. Returns false if there is no such session.
 */
bool next_snapshot_holder(TimestampTz empty_since, int *next, SnapshotHolder *holder);

/*
 * Return a time not before the start of any transaction begun so far: the clock, or a later time if
 * the clock was set back since.
 */
TimestampTz latest_beginning();

} // namespace pgq
