/*
 * Session-bound leases. They are lost at once when the session ends, in whatever way, or when a
 * connection pooler hands it to another client (DISCARD ALL). Other leases last until they expire.
 */
#pragma once

#include "engine/lease.h"

namespace pgq {

/* Reserve room for n more leases; may fail. */
void reserve_session_leases(int n);

/* Note that the session was handed that lease. Room was reserved; cannot fail. */
void note_session_lease(const QueueRef &ref, Lease *lease, uint64 serial);

} // namespace pgq
