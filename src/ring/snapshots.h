/*
 * Sessions with a snapshot that keeps an empty segment from being truncated: see README.md in this
 * folder, TRUNCATE, (3). The list of sessions is read from the server's memory, so it does not
 * depend on the caller's rights and cannot be changed by replacing a view.
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
 * Find the next such session, at entry *next of the list or later; *next starts at 1. empty_since:
 * snapshots taken after that time see no row of the segment. Returns false if there is no further
 * such session.
 */
bool next_snapshot_holder(TimestampTz empty_since, int *next, SnapshotHolder *holder);

/*
 * Return a time not before the start of any transaction begun so far: the clock, or a later time if
 * the clock was set back since.
 */
TimestampTz latest_beginning();

} // namespace pgq
