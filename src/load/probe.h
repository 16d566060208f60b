/*
 * Probes: reading the next rows of groups that were passed over and have room again. A probe has
 * the steps of a refill (load/refill.h) and its own heavyweight lock, QueueLock::kGroups. One
 * process at a time probes groups of a queue, several groups in one call.
 */
#pragma once

#include "load/refill.h"

namespace pgq {

/*
 * Probe groups of the queue. Called when a claim finds no hint in the window that can be taken.
 * wait: if another process is probing, wait for the end of its probe.
 */
RefillResult probe_groups(const QueueRef &ref, bool wait);

} // namespace pgq
