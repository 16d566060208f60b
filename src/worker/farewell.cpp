#include "worker/farewell.h"

#include "pg/stop_point.h"
#include "load/saved_lease.h"
#include "catalog/token_mark.h"
#include "worker/worker.h"

namespace pgq {

/* Sessions are gone in a few milliseconds, mostly. */
static constexpr int64 kPatience = 2 * USECS_PER_SEC;
static constexpr int64 kLookAgain = 2000;

static constinit Database *database = nullptr;
static constinit uint32 database_generation = 0;

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

/* Until it is true, or patience is at its end. Nothing interrupts a process that is on its way out. */
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
lock_all()
{
	const Tables *t = lock_tables(AccessShareLock) ? tables_if_attached() : nullptr;
	return t != nullptr && t->database == database &&
		   t->database_generation == database_generation &&
		   ConditionalLockRelationOid(t->token_mark, ShareUpdateExclusiveLock) &&
		   ConditionalLockRelationOid(t->saved_lease, RowExclusiveLock);
}

static constexpr int kLocked = -1;

static int
save(int64 deadline)
{
	int saved = kLocked;
	worker_transaction([&] {
		if (!wait_until(deadline, lock_all))
			return;
		close_token_mark(database);
		int64 mark = read_token_mark(tables().token_mark);
		(void) wait_until(deadline, we_are_alone);
		stop_point("save-leases");
		saved = save_leases(database, mark);
	});
	return saved;
}

static void
at_exit(int, Datum)
{
	if (!server_is_stopping())
		return;
	/* The end may have come in the middle of anything. */
	AbortOutOfAnyTransaction();
	if (!has_leases(database))
		return;
	int saved = save(monotonic_now() + kPatience);
	if (saved == kLocked)
		ereport(LOG, (errmsg("pgq_ext has not saved the leases of database %u", MyDatabaseId),
					  errdetail("Its tables are locked.")));
	else if (saved > 0)
		ereport(LOG, (errmsg("pgq_ext has saved %d leases of database %u", saved, MyDatabaseId)));
}

void
save_leases_at_exit(Database *of, uint32 generation)
{
	database = of;
	database_generation = generation;
	before_shmem_exit(at_exit, (Datum) 0);
}

void
forget_saved_leases()
{
	static constinit bool done = false;
	static constinit uint64 seen = 0;
	/* They are void as soon as the mark is another one. */
	uint64 mark = pg_atomic_read_u64(&database->marked_token);
	if (done || mark == seen)
		return;
	worker_transaction([&] {
		if (!lock_all())
			return;
		commit_lazily();
		seen = mark;
		done = delete_void_leases(read_token_mark(tables().token_mark));
	});
}

} // namespace pgq
