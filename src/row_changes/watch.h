/*
 * A watch of one table: what the arguments of its triggers say, looked up in the catalogs.
 *
 * Look-ups take no lock of the table. A trigger of a partition must not lock the partitioned table:
 * that could deadlock with ALTER TABLE.
 */
#pragma once

#include "row_changes/target.h"
#include "row_changes/watched_columns.h"

namespace pgq {

struct Watch
{
	Oid relation;
	/* the table that jobs name: `relation`, or a partitioned table of which it is a part */
	Oid named;
	Oid owner; /* of `relation` */
	char trigger[NAMEDATALEN];
	char *table; /* qualified_name() of `named` */
	WatchTarget target;
	WatchedColumns columns;
};

/*
 * Look the watch up, in the current memory context. Returns the first fault; then *watch is
 * incomplete.
 */
WatchFault read_watch(const WatchTrigger &trigger, Watch *watch);

/* Raise 39P01 unless the trigger has the transition tables that it needs. */
void require_transition_tables(Relation rel, const Trigger &trigger);

/*
 * Return the watch of the trigger that has fired, in the current memory context. Each backend
 * remembers the watches that it has read. Raises an error for a fault.
 */
Watch watch_that_fires(Relation rel, const Trigger &trigger);

} // namespace pgq
