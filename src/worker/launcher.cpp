/*
 * The launcher: finds the databases that have the extension, and keeps a scheduler running in each
 * of these databases. The launcher connects to no database, so it never blocks DROP DATABASE. Only
 * a scheduler can tell whether its database has the extension.
 */
#include "engine/exit_status.h"
#include "engine/named/lock_ends.h"
#include "engine/rate_limit.h"
#include "engine/registry.h"
#include "pg/scope.h"
#include "pg/stop_point.h"
#include "pg/wait_events.h"
#include "worker/worker.h"

namespace pgq {

/*
 * Interval at which the launcher reads pg_database, since no signal tells it that a database was
 * created or dropped.
 */
static constexpr int64 kLookAgain = 2000; /* milliseconds */
static constexpr int64 kRestartAfter = USECS_PER_SEC;
static constexpr int64 kLongestDelay = USECS_PER_MINUTE;
/*
 * Interval at which a scheduler looks at a database without queues. If a row of pgq_ext.queue was
 * written with its trigger off, or by a prepared transaction, the launcher does not learn of the
 * queue until a client uses it.
 */
static constexpr int64 kLookAtIdle = USECS_PER_MINUTE;

namespace {

enum class Known : uint8
{
	kUnknown, /* a scheduler has to find out whether the database needs a scheduler */
	kAbsent,  /* the last scheduler of the database has found no extension */
	kIdle,	  /* the database has no queues and no named locks */
	kRunning,
};

struct DatabaseEntry
{
	Oid oid; /* key */
	Oid tablespace;
	Known known;
	bool exists;
	bool connectable;
	bool was_idle;
	StartOrder order;
	uint32 announced; /* value of shared->announcements before the start of the scheduler */
	int failures;	  /* number of consecutive schedulers that have failed soon after their start */
	int64 started;	  /* monotonic: time of the last start */
	/* monotonic: earliest next start of a scheduler; if `known` is kIdle, time of the next start */
	int64 not_before;
	BackgroundWorkerHandle *handle;
};

} // namespace

static constinit HTAB *entries = nullptr;
static constinit bool *place_taken = nullptr;

static void
create_entries()
{
	HASHCTL info{};
	info.keysize = sizeof(Oid);
	info.entrysize = sizeof(DatabaseEntry);
	entries = hash_create("pgq_ext databases", 64, &info, HASH_ELEM | HASH_BLOBS);
	place_taken = static_cast<bool *>(
		MemoryContextAllocZero(TopMemoryContext, exit_status_count() * sizeof(bool)));
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

/*
 * Return the delay before the next start of a scheduler, after `times` failures: 1 s after the
 * first, 2 s after the second, doubling up to kLongestDelay.
 */
static int64
delay_after(int times)
{
	return times <= 0 ? 0 : Min(kRestartAfter << Min(times - 1, 10), kLongestDelay);
}

/*
 * Return the delay before a scheduler is started in a database whose scheduler was running when the
 * server crashed. The first kByChance crashes in a row cause no delay, since they may be chance.
 */
static int64
delay_after_crashes(Oid database)
{
	static constexpr int kByChance = 2;
	int crashes = crashes_of(database);
	int64 delay = delay_after(crashes - kByChance);
	if (delay > 0)
		ereport(LOG, (errmsg("the scheduler of pgq_ext for database %u has crashed %d times in a "
							 "row, soon after its start",
							 database, crashes),
					  errdetail("The scheduler is started again in %d s.",
								static_cast<int>(delay / USECS_PER_SEC))));
	return delay;
}

static void
note_database(const FormData_pg_database *database)
{
	bool found;
	Oid oid = database->oid;
	auto *entry = static_cast<DatabaseEntry *>(hash_search(entries, &oid, HASH_ENTER, &found));
	if (!found)
	{
		*entry = {};
		entry->oid = oid;
		entry->not_before = monotonic_now() + delay_after_crashes(oid);
	}
	entry->exists = true;
	entry->connectable =
		database->datallowconn && database->datconnlimit != DATCONNLIMIT_INVALID_DB;
	entry->tablespace = database->dattablespace;
}

/* Make the entries match pg_database. */
static void
look_at_databases()
{
	for_each_entry([](DatabaseEntry *entry) { entry->exists = false; });
	with_transaction([] {
		Relation rel = table_open(DatabaseRelationId, AccessShareLock);
		SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, nullptr, 0, nullptr);
		HeapTuple tuple;
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
			note_database(reinterpret_cast<Form_pg_database>(GETSTRUCT(tuple)));
		systable_endscan(scan);
		table_close(rel, AccessShareLock);
		stop_point("launcher-looked");
	});
	for_each_entry([](DatabaseEntry *entry) {
		if (!entry->exists && entry->known != Known::kRunning)
			hash_search(entries, &entry->oid, HASH_REMOVE, nullptr);
	});
}

/*
 * Free the slots of dropped databases. List the slots first, and read pg_database after that: a
 * database that has a slot existed when the slots were listed, so it was dropped if pg_database
 * does not have it any more.
 */
static void
follow_databases()
{
	static constinit SlotNote *notes = nullptr;
	if (notes == nullptr)
		notes = static_cast<SlotNote *>(
			MemoryContextAlloc(TopMemoryContext, max_databases * sizeof(SlotNote)));
	int n = note_slots(notes);
	look_at_databases();
	for (int i = 0; i < n; i++)
		if (hash_search(entries, &notes[i].oid, HASH_FIND, nullptr) == nullptr)
			free_database(notes[i].database, notes[i].generation);
}

/*
 * Mark databases without a scheduler as unknown, so that a scheduler looks at them. After an
 * announcement (the commit of a CREATE EXTENSION, or of a new queue, in any database), mark all
 * such databases. Otherwise mark the databases that a client has used, and idle databases after
 * kLookAtIdle.
 */
static void
doubt_what_is_known()
{
	static constinit uint32 seen = 0;
	uint32 announcements = pg_atomic_read_u32(&shared->announcements);
	bool all = announcements != seen;
	seen = announcements;
	int64 now = monotonic_now();
	for_each_entry([&](DatabaseEntry *entry) {
		if (all && entry->failures > 0)
			entry->failures = entry->not_before = 0;
		if (entry->known == Known::kAbsent && (all || is_attached(entry->oid)))
			entry->known = Known::kUnknown;
		if (entry->known == Known::kIdle &&
			(all || has_queues(entry->oid) || has_locks(entry->oid) || now >= entry->not_before))
		{
			entry->known = Known::kUnknown;
			entry->not_before = 0;
		}
	});
}

static void
note_end(DatabaseEntry *entry, ExitState state)
{
	int64 now = monotonic_now();
	/*
	 * If a queue was announced after the start of the scheduler, the scheduler may not have seen
	 * the queue.
	 */
	bool announced = pg_atomic_read_u32(&shared->announcements) != entry->announced;
	entry->known = Known::kUnknown;
	entry->was_idle = state == ExitState::kIdle;
	entry->not_before = now + kRestartAfter;
	switch (state)
	{
		case ExitState::kAbsent:
			if (!announced)
				entry->known = Known::kAbsent;
			break;
		case ExitState::kIdle:
			if (!announced)
				entry->known = Known::kIdle;
			entry->not_before = announced ? now : now + kLookAtIdle;
			break;
		case ExitState::kTaken:
		case ExitState::kWanted:
		case ExitState::kAsked:
		case ExitState::kQuit:
			break;
		case ExitState::kStarted:
		case ExitState::kRunning:
		case ExitState::kServing:
		case ExitState::kFailed:
			entry->failures = now - entry->started > kLongestDelay ? 1 : entry->failures + 1;
			entry->not_before = now + delay_after(entry->failures);
			return;
	}
	entry->failures = 0;
}

static void
note_stopped(DatabaseEntry *entry)
{
	pid_t pid;
	if (entry->known != Known::kRunning ||
		GetBackgroundWorkerPid(entry->handle, &pid) != BGWH_STOPPED)
		return;
	place_taken[entry->order.place] = false;
	pfree(entry->handle);
	entry->handle = nullptr;
	note_end(entry, state_of(entry->order));
}

static int
free_seat()
{
	for (int i = 0; i < exit_status_count(); i++)
		if (!place_taken[i])
			return i;
	return -1;
}

/*
 * Start a scheduler. Returns false if no worker slot or no place for an exit status
 * (engine/exit_status.h) is free; the end of another scheduler then wakes the launcher.
 */
static bool
start_scheduler(DatabaseEntry *entry)
{
	int place = free_seat();
	if (place < 0)
		return false;
	entry->order = begin_start(place, entry->oid);
	entry->order.tablespace = entry->tablespace;
	/*
	 * The scheduler sees every queue that was announced before its start, so read the counter of
	 * announcements first.
	 */
	entry->announced = pg_atomic_read_u32(&shared->announcements);
	entry->started = monotonic_now();
	if (!start_process(kSchedulerType, "pgq_scheduler_main", entry->oid, entry->order,
					   &entry->handle))
		return false;
	place_taken[place] = true;
	entry->known = Known::kRunning;
	return true;
}

/*
 * Return whether a scheduler may be started: the database has no running scheduler, and no session
 * wants to drop the database (protocol: databases-can-be-dropped). If a session wants to drop it,
 * the launcher asks again after kRestartAfter. A scheduler that an earlier launcher has started may
 * still be running; the end of that scheduler wakes this launcher.
 */
static bool
may_start(DatabaseEntry *entry)
{
	if (has_scheduler(entry->oid))
		return false;
	if (lock_database(entry->oid))
	{
		unlock_database();
		return true;
	}
	entry->not_before = monotonic_now() + kRestartAfter;
	return false;
}

/*
 * Log that worker slots are missing. Log nothing before all running schedulers have found out
 * whether their databases need a scheduler: a scheduler that ends frees its worker slot.
 */
static void
complain_of_room(int starved)
{
	static constinit bool complained = false;
	bool undecided = false;
	for_each_entry([&](DatabaseEntry *entry) {
		undecided |=
			entry->known == Known::kRunning && state_of(entry->order) < ExitState::kServing;
	});
	if (undecided)
		return;
	pg_atomic_write_u32(&shared->missing_schedulers, starved);
	if (starved > 0 && !complained)
		ereport(
			LOG,
			(errmsg("pgq_ext could not start all of its schedulers"),
			 errhint("Raise max_worker_processes (now %d) to %d or more and restart the server. "
					 "If more than pgq_ext.max_databases (now %d) databases have queues, raise "
					 "that setting too. pgq_ext takes a worker for its launcher and one for each "
					 "database that has queues.",
					 max_worker_processes, max_worker_processes + starved, max_databases)));
	complained = starved > 0;
}

/* Start a scheduler in each database that may need one. Return the milliseconds to sleep. */
static int64
start_what_is_missing()
{
	int64 now = monotonic_now();
	int64 sleep = kLookAgain;
	int starved = 0; /* number of databases that use the extension and get no scheduler now */
	bool any_starved = false;
	for_each_entry([&](DatabaseEntry *entry) {
		if (entry->known != Known::kUnknown || !entry->exists || !entry->connectable)
			return;
		if (entry->not_before > now)
			sleep = Min(sleep, (entry->not_before - now) / 1000 + 1);
		else if (may_start(entry) && !start_scheduler(entry) && !entry->was_idle)
		{
			any_starved = true;
			starved += is_attached(entry->oid);
		}
	});
	complain_of_room(any_starved ? Max(starved, 1) : 0);
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
	start_worker(wait_events.launcher);
	BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);
	on_shmem_exit(forget_launcher, (Datum) 0);
	pg_atomic_write_u32(&shared->launcher, my_procno() + 1);
	/*
	 * Recovery has ended, so from now on no other server hands out jobs of these databases. Rate
	 * limits have to allow for hand-outs by another server only before this moment.
	 */
	if (value_of(shared->starts_known_since) == 0)
		forget_starts();
	create_entries();
	for (;;)
	{
		for_each_entry(note_stopped);
		follow_databases();
		doubt_what_is_known();
		nap(start_what_is_missing());
	}
}
}
