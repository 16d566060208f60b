/*
 * Functions that run a piece of code (`body`) under a lock, in a transaction or with other rights,
 * such as with_lwlock(). On ERROR the server's abort releases locks, pins, snapshots and memory, so
 * these functions have no code for errors.
 */
#pragma once

#include "pg/pg.h"

#include <type_traits>

namespace pgq {

/* Run body with the lock held. body must not raise an error. */
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

/*
 * Run body with interrupts held. The server's macros are not used, because they apply ++ to a
 * volatile variable, which C++20 deprecates.
 */
template <typename Body>
inline void
with_interrupts_held(Body body)
{
	InterruptHoldoffCount = InterruptHoldoffCount + 1;
	body();
	InterruptHoldoffCount = InterruptHoldoffCount - 1;
}

/* Run body in a critical section: an error in it is a PANIC. */
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

/* Let the commit of this transaction wait for no synchronous standby. */
inline void
commit_locally()
{
	(void) set_config_option("synchronous_commit", "local", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

/*
 * Let the commit of this transaction not wait for the disk: a crash of the server may lose its
 * changes.
 */
inline void
commit_lazily()
{
	(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

/*
 * Return a registered snapshot that sees all that is committed by now, but no changes of this
 * transaction. State that is reported to other sessions must be read with such a snapshot: it must
 * not depend on changes that may be rolled back.
 */
inline Snapshot
register_snapshot_of_others()
{
	/* Without FirstSnapshotSet, GetLatestSnapshot() may return the transaction's own snapshot. */
	Assert(FirstSnapshotSet);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	snapshot->curcid = FirstCommandId;
	return snapshot;
}

/*
 * Run body with the rights of `role` alone, in a security-restricted operation. The server runs
 * maintenance of a table that way, with the rights of the table's owner: README.md in worker/,
 * "Rights". Settings that body changes are restored afterwards.
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
