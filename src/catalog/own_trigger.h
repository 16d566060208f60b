/*
 * Triggers of the extension. Each is known by its table, its function, its events and its name: a role that may add a
 * trigger to a table can take any of these alone. Those on the segments, the queues and the schedules fire always, so
 * that rows that logical replication brings are told of too. pg_restore --disable-triggers leaves them so that they do
 * not.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Is that trigger of that table one that the extension has made? */
bool is_own_trigger(Relation rel, const Trigger &trigger);

/* Is one of ours there that does not fire always, but should? */
bool has_muted_trigger(Relation segment);

/*
 * Let them fire always again. False: somebody is in the way. Whoever has written rows meanwhile has ended when we
 * have the lock, so the caller can read them from the heap.
 */
bool restore_triggers(Oid table);

/* Is one of ours there that fires, but not always? One that is switched off, which health tells of, is somebody's will. */
bool has_half_muted_trigger(Oid table);

} // namespace pgq
