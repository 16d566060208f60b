/*
 * Scopes as functions.  On ERROR the server's own abort path releases locks,
 * pins, snapshots and memory; nothing here has a destructor.
 */
#pragma once

#include "pg/pg.h"

#include <type_traits>

namespace pgq {

/* Run body with the lock held.  The body must not be able to raise. */
template <typename Body>
inline auto
with_lwlock(LWLock *lock, LWLockMode mode, Body body)
{
	LWLockAcquire(lock, mode);
	if constexpr (std::is_void_v<decltype(body())>)
	{
		body();
		LWLockRelease(lock);
	}
	else
	{
		auto result = body();
		LWLockRelease(lock);
		return result;
	}
}

/* Run body with interrupts held. The server's macros use ++ on a volatile. */
template <typename Body>
inline void
with_interrupts_held(Body body)
{
	InterruptHoldoffCount = InterruptHoldoffCount + 1;
	body();
	InterruptHoldoffCount = InterruptHoldoffCount - 1;
}

/* Run body in a transaction of its own, with an active snapshot. */
template <typename Body>
inline void
with_transaction(Body body)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	body();
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/*
 * Run body in a subtransaction. If it raises, roll that back, log the error, and
 * return false. Only where one bad row must not stop all others.
 */
template <typename Body>
inline bool
survives(Body body)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool survived = false;
	BeginInternalSubTransaction(nullptr);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		body();
		ReleaseCurrentSubTransaction();
		survived = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return survived;
}

/* This transaction, as the lock manager knows it. */
inline VirtualTransactionId
my_virtual_xid()
{
	return {MyBackendId, MyProc->lxid};
}

} // namespace pgq
