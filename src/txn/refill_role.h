/*
 * The refill or probe that this process has begun and not finished. If the call fails, the abort
 * callback abandons the refill.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

enum class RefillKind : uint8
{
	kWindow,
	kTimer,
	kGroups,
	kLap,
};

/*
 * begin_refill_role() notes that this process refills the queue's window or timer, or probes its
 * groups; an abort abandons that. end_refill_role() notes that the refill or probe is finished.
 */
void begin_refill_role(const QueueRef &ref, RefillKind kind);
void end_refill_role();

/* Abandon the refill or probe of this process that is under way, if there is one. Cannot fail. */
void abandon_refill();

} // namespace pgq
