/*
 * Our triggers on the segments, which fire always, so that jobs that logical replication brings are
 * told of too. pg_restore --disable-triggers leaves them so that they do not.
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
bool restore_triggers(Oid segment);

} // namespace pgq
