/* pgq_watch_table and pgq_unwatch_table: making and dropping the triggers of watches. */
#pragma once

#include "row_changes/target.h"

namespace pgq {

/* The arguments columns and key. NULL stands for the default. */
struct WatchedNames
{
	List *columns; /* of char *; NIL with all_columns false: none, a coalescing watch */
	bool all_columns;
	List *key; /* NIL: the primary key */
};

/*
 * Watch the table and its partitions. Changes the watch if the table is watched for this target.
 * Raises 42501, 42703, 42704, 42809, 22023.
 */
void watch_table(Oid table, WatchTarget target, const WatchedNames &names);

/* Drop the triggers of the watch. Returns false if there are none. Raises 42501. */
bool unwatch_table(Oid table, const WatchTarget &target);

} // namespace pgq
