/*
 * Sessions with a snapshot that keeps a segment without rows from being truncated: see README.md in
 * this folder, TRUNCATE, (3). The list of sessions is read from the server's memory, so it does not
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
 * Find the next session whose snapshot keeps the segment from being truncated. *next: the entry of
 * the list of sessions at which the search begins, 1 for the first call; set to the entry after the
 * session found. empty_since: snapshots taken after that time see no row of the segment. Returns
 * false if there is no further such session.
 */
bool next_snapshot_holder(TimestampTz empty_since, int *next, SnapshotHolder *holder);

/*
 * Return a time that is not before the start of any open transaction: the present time, or a later
 * time if the clock was set back since such a start.
 */
TimestampTz latest_beginning();

} // namespace pgq
