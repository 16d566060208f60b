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

/* Run body; an error in it is a PANIC. */
template <typename Body>
inline void
in_critical_section(Body body)
{
	CritSectionCount = CritSectionCount + 1;
	body();
	CritSectionCount = CritSectionCount - 1;
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

/* No standby is waited for. */
inline void
commit_locally()
{
	(void) set_config_option("synchronous_commit", "local", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

/* What this transaction has written may be lost in a crash of the server: its commit does not wait for the disk. */
inline void
commit_lazily()
{
	(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

/* Registered: what is committed by now, as if this transaction had done nothing. What others are told must not hang on what it may undo. */
inline Snapshot
register_snapshot_of_others()
{
	/* Or it might be the transaction's own. */
	Assert(FirstSnapshotSet);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	snapshot->curcid = FirstCommandId;
	return snapshot;
}

/*
 * Run body with the rights of that role and no others, as the server's own maintenance runs what the owner of a
 * table has added to it (indexes, triggers, checks): README.md in worker/, "Rights". Whatever is set in body for
 * the session or the transaction is undone at its end.
 */
template <typename Body>
inline void
with_rights_of(Oid role, Body body)
{
	Oid user;
	int context;
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(role, context | SECURITY_RESTRICTED_OPERATION | SECURITY_NOFORCE_RLS);
	int level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	body();
	AtEOXact_GUC(false, level);
	SetUserIdAndSecContext(user, context);
}

} // namespace pgq
