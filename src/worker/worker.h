/*
 * Background workers: a launcher for the server, and a scheduler for each database that has the
 * extension. See README.md in this folder.
 */
#pragma once

#include "catalog/lock_order.h"
#include "catalog/owner_sql.h"
#include "load/attach.h"
#include "pg/scope.h"

namespace pgq {

extern int notify_interval; /* milliseconds between two NOTIFYs */

/* Define the setting pgq_ext.notify_interval and register the launcher. Called by _PG_init. */
void workers_init();

inline constexpr char kLauncherType[] = "pgq_ext launcher";
inline constexpr char kSchedulerType[] = "pgq_ext scheduler";
inline constexpr char kHandlerType[] = "pgq_ext handler";

/* Return whether this process is a scheduler. */
bool is_scheduler();

/*
 * Start a background worker for that database, with `order` as its argument. The postmaster never
 * restarts this worker. Returns false if no worker slot is free.
 */
bool register_process(const char *type, const char *function, Oid database, const void *order,
					  Size size, BackgroundWorkerHandle **handle);
template <typename Order>
inline bool
start_process(const char *type, const char *function, Oid database, const Order &order,
			  BackgroundWorkerHandle **handle)
{
	static_assert(sizeof(order) <= BGW_EXTRALEN);
	return register_process(type, function, database, &order, sizeof(order), handle);
}

/* Return the `order` that register_process() has passed to this process. */
template <typename Order>
inline Order
order_of_process()
{
	Order order;
	memcpy(&order, MyBgworkerEntry->bgw_extra, sizeof(order));
	return order;
}

/*
 * Install signal handlers and switch off time limits: the first step of every background worker.
 * wait_event: shown while the worker sleeps in nap() (pg/wait_events.h). as_role: the worker runs
 * code of a role, whose lock_timeout holds.
 */
void start_worker(uint32 wait_event, bool as_role = false);

/*
 * Set an option for this worker, with the highest priority. Does nothing if this version of the
 * server has no such option.
 */
void set_option(const char *name, const char *value);

/*
 * Connect to the database, ignoring the settings of ALTER DATABASE and ALTER ROLE. Returns false if
 * another session is dropping, renaming or copying the database, or waits to do so.
 */
bool connect_unnoticed(Oid database, Oid tablespace);

/*
 * Connect to the database as that role, with its settings. Returns false as connect_unnoticed()
 * does. Ends the process with FATAL if the role may not log in.
 */
bool connect_as_role(Oid database, Oid tablespace, Oid role);

/* Set the options that every scheduler needs, overriding the server's configuration. */
void set_session_options();

/*
 * Run body in a transaction with the rights of the owner of the extension's tables, in a
 * security-restricted operation (README.md, "Rights"). A scheduler makes all its transactions with
 * this function. If the extension is not installed, body() runs as the bootstrap superuser; then no
 * table of the extension exists whose code could misuse these rights.
 */
template <typename Body>
inline void
worker_transaction(Body body)
{
	with_transaction([&] {
		commit_locally();
		Oid owner = owner_of_tables();
		bool lazy = false;
		if (!OidIsValid(owner))
			return body();
		with_rights_of(owner, [&] {
			body();
			lazy = synchronous_commit == SYNCHRONOUS_COMMIT_OFF;
		});
		/*
		 * Switching back from the owner's rights has reset all settings that body() has made. So
		 * switch synchronous_commit off again if body() had done so.
		 */
		if (lazy)
			commit_lazily();
	});
}

/*
 * Like worker_transaction(), but lock the extension's tables first (lock_and_serve()), without
 * waiting. Returns false, without running body(), if a table cannot be locked now, or if the
 * scheduler must not change jobs, for example because a subscription brings them.
 */
template <typename Body>
inline bool
serving_transaction(LOCKMODE mode, Body body)
{
	bool served = false;
	worker_transaction([&] {
		served = lock_and_serve(mode);
		if (served)
			body();
	});
	return served;
}

/*
 * Let this process call note() when the postmaster ends all processes at once: after a crash of
 * another process, or in a stop in mode immediate. A crash of this process does not call it. note()
 * must be safe in a signal handler. Call this before the process says in shared memory that it runs.
 */
void at_crash_of_others(void (*note)());

/* Return whether SIGTERM has come. */
bool asked_to_end();

/*
 * Exit without a log message if SIGTERM has come. (During a wait for a lock, SIGTERM ends the
 * process with FATAL.)
 */
void end_if_asked();

/*
 * Sleep until the latch is set or the time is over. Then handle signals and reload the
 * configuration, if needed.
 */
void nap(int64 milliseconds);

/* Do what nap() does after the sleep. */
void handle_signals();

/*
 * Lock the database as a connecting session does, without waiting. The lock may be taken outside of
 * a transaction, and is released when the process exits, at the latest. A process locks one
 * database at a time. Returns false if another session is dropping, renaming or copying the
 * database.
 */
bool lock_database(Oid database);
void unlock_database();

/*
 * Return whether another session is waiting to drop, rename or copy this database. That session
 * waits until this process has ended.
 */
bool database_is_wanted();

} // namespace pgq
