/*
 * Leases that are bound to the session that claimed them: when it ends, however it does, or is handed to
 * another client of a pooler (DISCARD ALL), they are lost at once, where others wait for their time.
 */
#pragma once

#include "engine/lease.h"

namespace pgq {

/* Room for n more. */
void reserve_session_leases(int n);

/* The session has been handed that lease. Room was reserved; cannot fail. */
void note_session_lease(const QueueRef &ref, Lease *lease, uint64 serial);

} // namespace pgq
