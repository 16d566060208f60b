/*
 * A refill that this process has begun, and that must not outlive the call, should that fail.
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

/* This process refills the queue's window or timer; an abort abandons it. */
void begin_refill_role(const QueueRef &ref, RefillKind kind);
void end_refill_role();

/* Give up the refill under way, if any. */
void abandon_refill();

} // namespace pgq
