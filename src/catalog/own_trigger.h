/*
 * Triggers of the extension. The extension recognizes them by table, function, events and name
 * together, because a role that may add triggers to a table can copy each of these alone. Triggers
 * on segments, queues, schedules and batches are ENABLE ALWAYS, so that they also fire for rows of logical
 * replication. Such a trigger in another state is called "muted". For example, pg_restore
 * --disable-triggers leaves a trigger enabled for origin sessions only.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Return whether this trigger of the table was created by the extension. */
bool is_own_trigger(Relation rel, const Trigger &trigger);

/* Return whether one of the extension's triggers should be ENABLE ALWAYS, but is not. */
bool has_muted_trigger(Relation segment);

/*
 * Return whether the table pgq_ext.NAME has all triggers of the extension that should be ENABLE ALWAYS, in
 * this state.
 */
bool has_all_triggers(Relation rel, const char *name);

/*
 * Set the muted triggers of the table to ENABLE ALWAYS again. Returns false if another transaction
 * has locked the table, or the table is gone. When this function has got the table's lock, all
 * transactions that wrote rows without the triggers have ended. So the caller can then find these
 * rows in the heap.
 */
bool restore_triggers(Oid table);

/*
 * Return whether one of the extension's triggers fires for origin sessions only. A trigger that is
 * disabled entirely does not count: an administrator wanted that, and pgq_ext.health reports it.
 */
bool has_half_muted_trigger(Oid table);

} // namespace pgq
