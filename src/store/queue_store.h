/*
 * Rows of pgq_ext.queue, and the way from a queue's name to its slot.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/*
 * The queue of that name. Remembered per backend; the row is read only when it is
 * not. Error 42704 with the nearest name when there is none.
 */
QueueRef resolve_queue(const char *name);

/* As above, but a missing queue is no error: false. */
bool find_queue(const char *name, QueueRef *ref);

/*
 * Attach every queue of this database, and make slots follow what somebody has done to the rows by hand. Returns how many
 * have found no slot: they are served as far as a client asks for them and a slot is free by then.
 */
int attach_all_queues();

} // namespace pgq
