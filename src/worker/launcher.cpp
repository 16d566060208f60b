/*
 * The launcher: finds the databases that have the extension and keeps a
 * scheduler running in each. It connects to no database, so it can be in nobody's
 * way; whether a database has the extension, only a scheduler started there can
 * tell.
 */
#include "engine/registry.h"
#include "pg/scope.h"
#include "worker/worker.h"

namespace pgq {

/* Databases come and go without telling us. */
static constexpr int64 kLookAgain = 2000; /* milliseconds */
static constexpr int64 kRestartAfter = USECS_PER_SEC;

enum class Known : uint8
{
	kUnknown, /* nobody has looked since the last CREATE EXTENSION anywhere */
	kAbsent,
	kRunning,
};

struct DatabaseEntry
{
	Oid oid; /* key */
	Known known;
	bool exists;
	bool connectable;
	int seat;
	uint32 announced; /* announcements when its scheduler was started */
	int64 not_before; /* monotonic: earliest next start */
	BackgroundWorkerHandle *handle;
};

static constinit HTAB *entries = nullptr;
static constinit bool *seat_taken = nullptr;

static void
create_entries()
{
	HASHCTL info{};
	info.keysize = sizeof(Oid);
	info.entrysize = sizeof(DatabaseEntry);
	entries = hash_create("pgq_ext databases", 64, &info, HASH_ELEM | HASH_BLOBS);
	seat_taken =
		static_cast<bool *>(MemoryContextAllocZero(TopMemoryContext, seat_count() * sizeof(bool)));
}

template <typename Visit>
static void
for_each_entry(Visit visit)
{
	HASH_SEQ_STATUS status;
	hash_seq_init(&status, entries);
	while (auto *entry = static_cast<DatabaseEntry *>(hash_seq_search(&status)))
		visit(entry);
}

static void
note_database(Oid oid, bool connectable)
{
	bool found;
	auto *entry = static_cast<DatabaseEntry *>(hash_search(entries, &oid, HASH_ENTER, &found));
	if (!found)
		*entry = {.oid = oid,
				  .known = Known::kUnknown,
				  .exists = true,
				  .connectable = connectable,
				  .seat = -1,
				  .announced = 0,
				  .not_before = 0,
				  .handle = nullptr};
	entry->exists = true;
	entry->connectable = connectable;
}

/* Bring the entries up to date with pg_database. */
static void
look_at_databases()
{
	for_each_entry([](DatabaseEntry *entry) { entry->exists = false; });
	with_transaction([] {
		Relation rel = table_open(DatabaseRelationId, AccessShareLock);
		SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, nullptr, 0, nullptr);
		HeapTuple tuple;
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		{
			auto *database = reinterpret_cast<Form_pg_database>(GETSTRUCT(tuple));
			note_database(database->oid, database->datallowconn);
		}
		systable_endscan(scan);
		table_close(rel, AccessShareLock);
	});
	for_each_entry([](DatabaseEntry *entry) {
		if (!entry->exists && entry->known != Known::kRunning)
			hash_search(entries, &entry->oid, HASH_REMOVE, nullptr);
	});
	/* One that has come since is freed wrongly, but that only costs it a scan. */
	for (int i = 0; i < max_databases; i++)
	{
		Oid oid = shared->databases[i].oid;
		if (shared->databases[i].state == SlotState::kUsed &&
			hash_search(entries, &oid, HASH_FIND, nullptr) == nullptr)
			free_other_incarnations(oid, InvalidOid);
	}
}

/* After a CREATE EXTENSION somewhere, or when a client has used it, look again. */
static void
doubt_absences()
{
	static constinit uint32 seen = 0;
	uint32 announcements = pg_atomic_read_u32(&shared->announcements);
	bool all = announcements != seen;
	seen = announcements;
	for_each_entry([&](DatabaseEntry *entry) {
		if (entry->known == Known::kAbsent && (all || is_attached(entry->oid)))
			entry->known = Known::kUnknown;
	});
}

static void
note_stopped(DatabaseEntry *entry)
{
	pid_t pid;
	if (entry->known != Known::kRunning ||
		GetBackgroundWorkerPid(entry->handle, &pid) != BGWH_STOPPED)
		return;
	/* The extension may have come after the scheduler has looked for it, and before its end. */
	bool absent = pg_atomic_read_u32(&shared->seats[entry->seat].absent) != 0 &&
				  pg_atomic_read_u32(&shared->announcements) == entry->announced;
	seat_taken[entry->seat] = false;
	pfree(entry->handle);
	entry->handle = nullptr;
	entry->known = absent ? Known::kAbsent : Known::kUnknown;
	entry->not_before = monotonic_now() + kRestartAfter;
}

static int
free_seat()
{
	for (int i = 0; i < seat_count(); i++)
		if (!seat_taken[i])
			return i;
	return -1;
}

/* False: no seat or no worker slot now; another one ending wakes us. */
static bool
start_scheduler(DatabaseEntry *entry)
{
	int seat = free_seat();
	if (seat < 0)
		return false;
	BackgroundWorker worker{};
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "pgq_ext scheduler for database %u",
			 entry->oid);
	strlcpy(worker.bgw_type, kSchedulerType, sizeof(worker.bgw_type));
	strlcpy(worker.bgw_library_name, "pgq_ext", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "pgq_scheduler_main", sizeof(worker.bgw_function_name));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(entry->oid);
	memcpy(worker.bgw_extra, &seat, sizeof(seat));
	worker.bgw_notify_pid = MyProcPid;

	pg_atomic_write_u32(&shared->seats[seat].absent, 0);
	entry->announced = pg_atomic_read_u32(&shared->announcements);
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	bool started = RegisterDynamicBackgroundWorker(&worker, &entry->handle);
	MemoryContextSwitchTo(old);
	if (!started)
		return false;
	seat_taken[seat] = true;
	entry->seat = seat;
	entry->known = Known::kRunning;
	return true;
}

/* Returns the milliseconds to sleep. */
static int64
start_what_is_missing()
{
	int64 now = monotonic_now();
	int64 sleep = kLookAgain;
	bool starved = false;
	for_each_entry([&](DatabaseEntry *entry) {
		if (entry->known != Known::kUnknown || !entry->exists || !entry->connectable)
			return;
		if (entry->not_before > now)
			sleep = Min(sleep, (entry->not_before - now) / 1000 + 1);
		else if (!start_scheduler(entry))
			starved = true;
	});
	static constinit bool complained = false;
	if (starved && !complained)
		ereport(LOG, (errmsg("pgq_ext could not start all of its schedulers"),
					  errhint("Raise max_worker_processes or pgq_ext.max_databases.")));
	complained = starved;
	return sleep;
}

static void
forget_launcher(int, Datum)
{
	pg_atomic_write_u32(&shared->launcher, 0);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PGDLLEXPORT void pgq_launcher_main(Datum);

void
pgq_launcher_main(Datum)
{
	start_worker();
	BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);
	on_shmem_exit(forget_launcher, (Datum) 0);
	pg_atomic_write_u32(&shared->launcher, MyProc->pgprocno + 1);
	create_entries();
	for (;;)
	{
		for_each_entry(note_stopped);
		look_at_databases();
		doubt_absences();
		nap(start_what_is_missing());
	}
}
}
