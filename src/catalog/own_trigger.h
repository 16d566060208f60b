/*
 * Our triggers that fire always, so that rows that logical replication brings are told of too: on the segments,
 * the queues, the schedules. pg_restore --disable-triggers leaves them so that they do not.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Is one of ours there that does not fire always? */
bool has_muted_trigger(Relation segment);

/*
 * Let them fire always again. False: somebody is in the way. Whoever has written rows meanwhile has ended when we
 * have the lock, so the caller can read them from the heap.
 */
bool restore_triggers(Oid table);

/* Is one of ours there that fires, but not always? One that is switched off, which health tells of, is somebody's will. */
bool has_half_muted_trigger(Oid table);

} // namespace pgq
