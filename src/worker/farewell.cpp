#include "worker/farewell.h"

#include "catalog/token_mark.h"
#include "load/saved_lease.h"
#include "pg/stop_point.h"
#include "worker/worker.h"

namespace pgq {

/* Sessions are gone in a few milliseconds, mostly. */
static constexpr int64 kLongestWait = 2 * USECS_PER_SEC;
static constexpr int64 kLookAgain = 2000;

/*
 * A stop, or only this process? The postmaster notes a stop in its lock file before it sends the
 * signal. In doubt we save: that is never wrong.
 */
static bool
server_is_stopping()
{
	FILE *file = AllocateFile("postmaster.pid", "r");
	char line[MAXPGPATH] = "";
	if (file == nullptr)
		return true;
	for (int i = 0; i < LOCK_FILE_LINE_PM_STATUS; i++)
		if (fgets(line, sizeof(line), file) == nullptr)
			line[0] = '\0';
	FreeFile(file);
	return strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
}

/* False: it has not become true by the deadline. Nothing interrupts a process that is on its way out. */
template <typename Condition>
static bool
wait_until(int64 deadline, Condition condition)
{
	while (!condition())
	{
		if (monotonic_now() > deadline)
			return false;
		pg_usleep(kLookAgain);
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
 * Is there anybody else in this database who could still end a lease? When a process gives back its
 * number it has aborted its transaction. Walsenders stay until the last checkpoint.
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

/* The tables, the table to write to, and the lock of the mark: nobody can advance it from here to the commit. */
static bool
lock_all(const Shift &shift)
{
	const Tables *t = lock_tables(AccessShareLock) ? tables_if_attached() : nullptr;
	return t != nullptr && t->database == shift.database &&
		   t->database_generation == shift.generation &&
		   ConditionalLockRelationOid(t->token_mark, ShareUpdateExclusiveLock) &&
		   ConditionalLockRelationOid(t->saved_lease, RowExclusiveLock);
}

/* Save them. Returns how many, or kLocked. */
static constexpr int kLocked = -1;

static int
save(const Shift &shift, int64 deadline)
{
	int saved = kLocked;
	worker_transaction([&] {
		if (!wait_until(deadline, [&] { return lock_all(shift); }))
			return;
		close_token_mark(shift.database);
		int64 mark = read_token_mark(tables().token_mark);
		bool alone = wait_until(deadline, we_are_alone);
		stop_point("save-leases");
		saved = save_leases(shift.database, mark, alone);
		if (!alone)
			ereport(LOG, (errmsg("pgq_ext could not save the permits taken of rates in database %u",
								 MyDatabaseId),
						  errdetail("A process did not end within %d s.",
									static_cast<int>(kLongestWait / USECS_PER_SEC))));
	});
	return saved;
}

static void
tell(int saved)
{
	if (saved == kLocked)
		ereport(LOG, (errmsg("pgq_ext could not save the leases of database %u", MyDatabaseId),
					  errdetail("Its tables are locked.")));
	else if (saved > 0)
		ereport(LOG, (errmsg("pgq_ext has saved %d leases of database %u", saved, MyDatabaseId)));
}

/* The end of a process may come in the middle of anything: that is undone first. */
static void
save_if_stopping(int, Datum arg)
{
	const auto &shift = *reinterpret_cast<const Shift *>(DatumGetPointer(arg));
	if (!server_is_stopping())
		return;
	AbortOutOfAnyTransaction();
	if (has_what_is_saved(shift.database))
		tell(save(shift, monotonic_now() + kLongestWait));
}

void
save_leases_at_exit(Shift *shift)
{
	before_shmem_exit(save_if_stopping, PointerGetDatum(shift));
}

void
forget_saved_leases(Shift &shift)
{
	/* They are void as soon as the mark is another one. */
	uint64 mark = pg_atomic_read_u64(&shift.database->marked_token);
	if (shift.tokens.none_saved || mark == shift.tokens.cleared_at)
		return;
	worker_transaction([&] {
		if (!lock_all(shift))
			return;
		commit_lazily();
		shift.tokens.cleared_at = mark;
		shift.tokens.none_saved = delete_void_leases(read_token_mark(tables().token_mark));
	});
}

} // namespace pgq
