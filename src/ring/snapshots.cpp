#include "ring/snapshots.h"

#include "pg/scope.h"

namespace pgq {

constinit bool rotation_waits_for_snapshots = false;

static bool
starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool
waits_for_lock(int pid)
{
	static constexpr uint32 kClass = 0xFF000000;
	PGPROC *proc = BackendPidGetProc(pid);
	return proc != nullptr && (proc->wait_event_info & kClass) == PG_WAIT_LOCK;
}

/*
 * Return whether the backend has exported a snapshot, which another session can import at any time.
 * The name of an exported snapshot's file begins with the backend number and the local transaction
 * id.
 */
static bool
has_exported_snapshot(int pid)
{
	bool exported = false;
	DIR *dir = AllocateDir("pg_snapshots");
	while (struct dirent *file = ReadDir(dir, "pg_snapshots"))
	{
		uint32 backend;
		uint32 local_xid;
		if (sscanf(file->d_name, "%08X-%08X-", &backend, &local_xid) != 2)
			continue;
		PGPROC *proc = process_by_id(static_cast<int>(backend));
		exported |= proc != nullptr && proc->pid == pid && local_xid_of(proc) == local_xid;
	}
	FreeDir(dir);
	return exported;
}

/*
 * Return whether the session may be a dump that is about to read the segment. A dump takes its
 * snapshot before it locks the tables. A session with the application name pg_dump always counts as
 * a dump. Another session counts only if its transaction began at or before empty_since, or at an
 * unknown time. In addition, one of these must be true: the setting rotation_waits_for_snapshots is
 * on; the session waits for a lock; its last statement is LOCK TABLE; its transaction is younger
 * than ten seconds, or of unknown age; it has exported a snapshot.
 */
static bool
may_be_a_dump(const PgBackendStatus &session, TimestampTz empty_since)
{
	static constexpr int64 kYoung = 10 * USECS_PER_SEC;
	TimestampTz began = session.st_xact_start_timestamp;
	if (starts_with(session.st_appname, "pg_dump"))
		return true;
	return began <= empty_since &&
		   (rotation_waits_for_snapshots || waits_for_lock(session.st_procpid) ||
			starts_with(session.st_activity_raw, "LOCK TABLE ") || began == 0 ||
			began > wall_now() - kYoung || has_exported_snapshot(session.st_procpid));
}

TimestampTz
latest_beginning()
{
	pgstat_clear_backend_activity_snapshot();
	TimestampTz latest = wall_now();
	for (int i = pgstat_fetch_stat_numbackends(); i > 0; i--)
		latest = Max(latest, nth_session(i)->backendStatus.st_xact_start_timestamp);
	return latest;
}

bool
next_snapshot_holder(TimestampTz empty_since, int *next, SnapshotHolder *holder)
{
	if (*next == 1)
		/*
		 * Forget the cached activity of the sessions: within a transaction, the server returns the
		 * activity that was read first.
		 */
		pgstat_clear_backend_activity_snapshot();
	for (int n = pgstat_fetch_stat_numbackends(); *next <= n;)
	{
		const LocalPgBackendStatus *entry = nth_session((*next)++);
		const PgBackendStatus &session = entry->backendStatus;
		if (!TransactionIdIsValid(entry->backend_xmin) || session.st_databaseid != MyDatabaseId ||
			session.st_procpid == MyProcPid || session.st_backendType == B_AUTOVAC_WORKER ||
			!may_be_a_dump(session, empty_since))
			continue;
		*holder = {session.st_procpid, session.st_appname};
		return true;
	}
	return false;
}

} // namespace pgq
