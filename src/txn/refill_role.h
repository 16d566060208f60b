/*
 * Notes which refill, visit of markers or step of a lap this process has begun and not finished. If
 * the call fails, the abort callback abandons it.
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
 * begin_refill_role() notes that this process refills the queue's window or timer, visits markers
 * of its groups, or makes a step of its lap; an abort abandons that. end_refill_role() notes that
 * the refill is finished.
 */
void begin_refill_role(const QueueRef &ref, RefillKind kind);
void end_refill_role();

/*
 * Abandon the refill, visit or step of this process that is under way, if there is one. Also called
 * at the end of a finished visit or step. Cannot fail.
 */
void abandon_refill();

} // namespace pgq
