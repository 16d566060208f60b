#include "worker/shutdown_save.h"

#include "catalog/token_mark.h"
#include "load/saved_lease.h"
#include "pg/server_stop.h"
#include "pg/stop_point.h"
#include "worker/worker.h"

namespace pgq {

/*
 * Longest wait for other sessions to end, in microseconds; usually all sessions end in a few
 * milliseconds.
 */
static constexpr int64 kLongestWait = 2 * USECS_PER_SEC;
static constexpr int64 kNap = 2000;

/*
 * Wait until the condition is true. Returns false if the condition is still false at the deadline
 * (monotonic). The process is exiting, so signals do not interrupt this wait.
 */
template <typename Condition>
static bool
wait_until(int64 deadline, Condition condition)
{
	while (!condition())
	{
		if (monotonic_now() > deadline)
			return false;
		pg_usleep(kNap);
	}
	return true;
}

static bool
is_walsender(const PGPROC *proc)
{
	for (int i = 0; i < max_wal_senders; i++)
		if (WalSndCtl->walsnds[i].pid == proc->pid)
			return true;
	return false;
}

/*
 * Return whether this is the last process of the database that can end a lease. Another process
 * gives its PGPROC back only after it has aborted its transaction. Walsenders are ignored: they end
 * no lease, and stay until the last checkpoint.
 */
static bool
we_are_alone()
{
	for (int id = kFirstProcessId; id < kFirstProcessId + MaxBackends; id++)
	{
		const PGPROC *proc = process_by_id(id);
		if (proc != nullptr && proc != MyProc && proc->databaseId == MyDatabaseId &&
			!is_walsender(proc))
			return false;
	}
	return true;
}

/*
 * Lock the extension's tables for reading, the table saved_lease for writing, and the token mark,
 * so that no session can advance the mark before this transaction commits. Returns false if a lock
 * is not available.
 */
static bool
lock_all(const SchedulerState &scheduler)
{
	const Tables *t = lock_tables(AccessShareLock) ? tables_if_attached() : nullptr;
	return t != nullptr && t->database == scheduler.database &&
		   t->database_generation == scheduler.generation &&
		   ConditionalLockRelationOid(t->token_mark, ShareUpdateExclusiveLock) &&
		   ConditionalLockRelationOid(t->saved_lease(), RowExclusiveLock);
}

/* Result of save(): the locks were not available. */
static constexpr int kLocked = -1;

static int
save(const SchedulerState &scheduler, int64 deadline)
{
	int saved = kLocked;
	worker_transaction([&] {
		if (!wait_until(deadline, [&] { return lock_all(scheduler); }))
			return;
		close_token_mark(scheduler.database);
		int64 mark = read_token_mark(tables().token_mark);
		bool alone = wait_until(deadline, we_are_alone);
		stop_point("save-leases");
		saved = save_leases(scheduler.database, mark, alone);
		if (!alone)
			ereport(LOG, (errmsg("pgq_ext could not save the state of the rates and rate limits of "
								 "database %u",
								 MyDatabaseId),
						  errdetail("Another process in that database did not end within %d s.",
									static_cast<int>(kLongestWait / USECS_PER_SEC))));
	});
	return saved;
}

static void
tell(int saved)
{
	if (saved == kLocked)
		ereport(LOG, (errmsg("pgq_ext could not save the leases of database %u", MyDatabaseId),
					  errdetail("Tables of pgq_ext in that database are locked.")));
	else if (saved > 0)
		ereport(LOG, (errmsg("pgq_ext has saved %d leases of database %u", saved, MyDatabaseId)));
}

/*
 * Save the leases at exit, if the server is being stopped. The exit may have interrupted the
 * process in any operation, so abort the open transaction first.
 */
static void
save_if_stopping(int, Datum arg)
{
	const auto &scheduler = *reinterpret_cast<const SchedulerState *>(DatumGetPointer(arg));
	if (!server_is_stopping())
		return;
	AbortOutOfAnyTransaction();
	if (has_what_is_saved(scheduler.database))
		tell(save(scheduler, monotonic_now() + kLongestWait));
}

void
save_leases_at_exit(SchedulerState *scheduler)
{
	before_shmem_exit(save_if_stopping, PointerGetDatum(scheduler));
}

void
forget_saved_leases(SchedulerState &scheduler)
{
	/*
	 * Saved leases become void when the mark changes. So there is nothing to delete if the mark is
	 * the same as at the last delete.
	 */
	uint64 mark = pg_atomic_read_u64(&scheduler.database->marked_token);
	if (scheduler.tokens.none_saved || mark == scheduler.tokens.cleared_at)
		return;
	worker_transaction([&] {
		if (!lock_all(scheduler))
			return;
		commit_lazily();
		scheduler.tokens.cleared_at = mark;
		scheduler.tokens.none_saved = delete_void_leases(read_token_mark(tables().token_mark));
	});
}

} // namespace pgq
