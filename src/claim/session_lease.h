/*
 * Session-bound leases. Such a lease is lost at once when its session ends for any reason, or when
 * a connection pooler hands the connection to another client (DISCARD ALL). Other leases last until
 * they expire.
 */
#pragma once

#include "engine/lease.h"

namespace pgq {

/* Reserve memory for n more session-bound leases. May raise an error. */
void reserve_session_leases(int n);

/*
 * Note that this session has got the lease. The caller has called reserve_session_leases(), so this
 * function cannot fail.
 */
void note_session_lease(const QueueRef &ref, Lease *lease, uint64 serial);

/* Make the lease LOST, unless it has ended or is lost already. Cannot fail. */
void lose_session_lease(const QueueRef &ref, Lease *lease, uint64 serial);

} // namespace pgq
