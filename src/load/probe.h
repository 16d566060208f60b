/*
 * Probes: the next rows of groups that were passed over and have room again. Like a refill, and with a lock of its own;
 * one process at a time probes the groups of a queue, several at once.
 */
#pragma once

#include "load/refill.h"

namespace pgq {

/* To be called when nothing can be popped. wait: for whoever is at it just now. */
RefillResult probe_groups(const QueueRef &ref, bool wait);

} // namespace pgq
