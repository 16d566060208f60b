#include "worker/worker.h"

#include <csignal>

namespace pgq {

constinit int notify_interval = 100;

void
workers_init()
{
	DefineCustomIntVariable(
		"pgq_ext.notify_interval", "Least time between two notifications of one database.",
		"Notifications of the jobs that became ready meanwhile are sent together.",
		&notify_interval, 100, 0, 60 * 1000, PGC_SIGHUP, GUC_UNIT_MS, nullptr, nullptr, nullptr);

	BackgroundWorker worker{};
	strlcpy(worker.bgw_name, kLauncherType, sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, kLauncherType, sizeof(worker.bgw_type));
	strlcpy(worker.bgw_library_name, "pgq_ext", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "pgq_launcher_main", sizeof(worker.bgw_function_name));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	/* On a standby, the launcher starts at the promotion. */
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	RegisterBackgroundWorker(&worker);
}

bool
register_process(const char *type, const char *function, Oid database, const void *order, Size size,
				 BackgroundWorkerHandle **handle)
{
	BackgroundWorker worker{};
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "%s for database %u", type, database);
	strlcpy(worker.bgw_type, type, sizeof(worker.bgw_type));
	strlcpy(worker.bgw_library_name, "pgq_ext", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, function, sizeof(worker.bgw_function_name));
	/*
	 * All work is in transactions, so SIGTERM may end the worker at any time. Therefore DROP
	 * DATABASE and similar commands may send SIGTERM to the worker. A handler's worker is an
	 * exception: if SIGTERM ended it during a call, the attempt of the job would count as failed.
	 * If such a command waits for a handler's worker, the worker ends by itself between two calls.
	 */
	bool may_end = strcmp(type, kHandlerType) != 0;
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION |
					   (may_end ? kEndsForDatabase : 0);
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	memcpy(worker.bgw_extra, order, size);
	worker.bgw_notify_pid = MyProcPid;
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	bool started = RegisterDynamicBackgroundWorker(&worker, handle);
	MemoryContextSwitchTo(old);
	return started;
}

bool
is_scheduler()
{
	return MyBgworkerEntry != nullptr && strcmp(MyBgworkerEntry->bgw_type, kSchedulerType) == 0;
}

/*
 * Set by SIGTERM. The server's flag ProcDiePending cannot be used instead, since the server clears
 * it at exit.
 */
static volatile sig_atomic_t asked = 0;

static void
ask_to_end(SIGNAL_ARGS)
{
	asked = 1;
	die(PGQ_SIGNAL);
}

bool
asked_to_end()
{
	return asked != 0;
}

/* ---- a crash of another process ---- */

static void (*note_crash_of_others)() = nullptr;

static void
on_quit(SIGNAL_ARGS)
{
	note_crash_of_others();
	SignalHandlerForCrashExit(PGQ_SIGNAL);
}

/*
 * From PostgreSQL 16 on, the postmaster sends SIGABRT instead of SIGQUIT if send_abort_for_crash or
 * send_abort_for_kill is on. A SIGABRT from the postmaster means that another process has crashed;
 * abort() of this process is a crash of its own. raise() sends the signal again: it takes effect
 * when this function returns, and may write a core file.
 */
static void
on_abort(int, siginfo_t *sender, void *)
{
	if (sender->si_code == SI_USER && sender->si_pid == PostmasterPid)
		note_crash_of_others();
	(void) raise(SIGABRT);
}

void
at_crash_of_others(void (*note)())
{
	note_crash_of_others = note;
	pqsignal(SIGQUIT, on_quit);
	struct sigaction abort_action = {};
	abort_action.sa_sigaction = on_abort;
	abort_action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND);
	(void) sigemptyset(&abort_action.sa_mask);
	(void) sigaction(SIGABRT, &abort_action, nullptr);
}

void
set_option(const char *name, const char *value)
{
	/* Skip an option that this version of the server does not have. */
	if (GetConfigOption(name, true, false) != nullptr)
		SetConfigOption(name, value, PGC_SUSET, PGC_S_OVERRIDE);
}

static constinit uint32 nap_event = 0;

void
start_worker(uint32 wait_event, bool as_role)
{
	nap_event = wait_event;
	/* Connecting to a database needs a transaction, which must not time out. */
	set_option("transaction_timeout", "0");
	if (!as_role)
		set_option("lock_timeout", "0");
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, ask_to_end);
	BackgroundWorkerUnblockSignals();
	/* SIGHUP was ignored until here, so the process may have missed a reload since its fork. */
	ask_for_reload();
}

/*
 * Return whether the owner of a database must not change this setting for a scheduler. False for
 * settings of logging, for settings of pgq_ext (which only a superuser can set for a database), and
 * for a few other settings.
 */
static bool
is_servers_alone(const config_generic *setting)
{
	auto begins = [&](const char *prefix) {
		return strncmp(setting->name, prefix, strlen(prefix)) == 0;
	};
	return setting->context != PGC_INTERNAL && !begins("log_") && !begins("pgq_ext.") &&
		   !begins("client_encoding") && !begins("synchronous_commit");
}

/*
 * Connect without the settings of the database. The owner of a database may set nearly anything for
 * sessions in it: a role, time limits, a planner without indexes. No source of settings can change
 * a value that has a higher priority. So give the present values the highest priority while
 * connecting.
 */
static void
connect_to(Oid database)
{
	struct Priority
	{
		config_generic *setting;
		GucSource source;
		GucSource reset_source;
	};
	int total;
	config_generic **settings = all_settings(&total);
	auto *raised = static_cast<Priority *>(palloc(total * sizeof(Priority)));
	/* Raise the priority of all settings that a database must not change. */
	int n = 0;
	for (int i = 0; i < total; i++)
	{
		config_generic *setting = settings[i];
		if (!is_servers_alone(setting))
			continue;
		raised[n++] = {setting, setting->source, setting->reset_source};
		setting->source = setting->reset_source = PGC_S_OVERRIDE;
	}
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	/* Restore the priorities that the settings had before. */
	for (int i = 0; i < n; i++)
	{
		raised[i].setting->source = raised[i].source;
		raised[i].setting->reset_source = raised[i].reset_source;
	}
	pfree(raised);
}

void
end_if_asked()
{
	/*
	 * If SIGTERM has come, end this process. With exit code 1 the postmaster restarts the launcher,
	 * unless the server is shutting down. With exit code 0 the postmaster logs nothing about the
	 * end of another worker.
	 */
	if (ProcDiePending)
		proc_exit(MyBgworkerEntry->bgw_restart_time == BGW_NEVER_RESTART ? 0 : 1);
}

static constinit Oid locked_database = InvalidOid;

static LOCKTAG
database_tag(Oid database)
{
	LOCKTAG tag;
	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, database, 0);
	return tag;
}

/*
 * Release the lock of the database at exit. If a transaction was open, its abort has released the
 * lock already; but the exit may come outside of a transaction.
 */
static void
release_at_exit(int, Datum)
{
	LOCKTAG tag = database_tag(locked_database);
	if (OidIsValid(locked_database) && has_lock(tag, RowExclusiveLock))
		unlock_database();
}

bool
lock_database(Oid database)
{
	static constinit bool registered = false;
	if (!registered)
		before_shmem_exit(release_at_exit, (Datum) 0);
	registered = true;
	LOCKTAG tag = database_tag(database);
	if (LockAcquire(&tag, RowExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	locked_database = database;
	return true;
}

void
unlock_database()
{
	LOCKTAG tag = database_tag(locked_database);
	locked_database = InvalidOid;
	LockRelease(&tag, RowExclusiveLock, true);
}

bool
database_is_wanted()
{
	if (!lock_database(MyDatabaseId))
		return true;
	unlock_database();
	return false;
}

/*
 * Connect to a database without blocking other sessions, and without an error in the log if the
 * database is being dropped. While this process has the lock of the database, no session can drop
 * the database. If the files of the database do not exist, the database was dropped before.
 */
bool
connect_unnoticed(Oid database, Oid tablespace)
{
	if (!lock_database(database))
		return false;
	char *files = GetDatabasePath(database, tablespace);
	bool exists = access(files, F_OK) == 0;
	if (exists)
		connect_to(database);
	unlock_database();
	pfree(files);
	return exists;
}

bool
connect_as_role(Oid database, Oid tablespace, Oid role)
{
	if (!lock_database(database))
		return false;
	char *files = GetDatabasePath(database, tablespace);
	bool exists = access(files, F_OK) == 0;
	if (exists)
		BackgroundWorkerInitializeConnectionByOid(database, role, 0);
	unlock_database();
	pfree(files);
	return exists;
}

void
set_session_options()
{
	static const struct
	{
		const char *name;
		const char *value;
	} options[] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"session_replication_role", "replica"}, /* for the reason see owner_sql.cpp */
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"row_security", "on"},
		{"plan_cache_mode", "auto"},
		{"jit", "off"}, /* read_few_rows() gives plans a high cost, which would start jit */
		{"enable_partition_pruning", "on"},
	};
	for (const auto &option : options)
		set_option(option.name, option.value);
}

static constexpr int64 kLongestNap = 60 * 1000;

void
nap(int64 milliseconds)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 Min(milliseconds, kLongestNap), nap_event);
	ResetLatch(MyLatch);
	handle_signals();
}

void
handle_signals()
{
	end_if_asked();
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

} // namespace pgq
