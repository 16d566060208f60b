/*
 * Background workers: a launcher for the server, a scheduler for each database
 * that has the extension. See README.md in this folder.
 */
#pragma once

#include "catalog/lock_order.h"
#include "catalog/owner_sql.h"
#include "load/attach.h"
#include "pg/scope.h"

namespace pgq {

extern int notify_interval; /* milliseconds */

/* Define the GUC and register the launcher. Called by _PG_init. */
void workers_init();

inline constexpr char kLauncherType[] = "pgq_ext launcher";
inline constexpr char kSchedulerType[] = "pgq_ext scheduler";

/* Is this process one? */
bool is_scheduler();

/*
 * Another process for that database, which is told the order, and started again by us alone, not by the postmaster. False:
 * there is no room for it.
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

/* What this process was told. */
template <typename Order>
inline Order
order_of_process()
{
	Order order;
	memcpy(&order, MyBgworkerEntry->bgw_extra, sizeof(order));
	return order;
}

/* What every worker does first. It naps under that name (pg/wait_events.h), and no limit of time ends it. */
void start_worker(uint32 wait_event);

/* For this worker, whatever else sets it. Nothing, if this server has no such setting. */
void set_option(const char *name, const char *value);

/*
 * Connect, without what ALTER DATABASE and ALTER ROLE have set for sessions there. False: somebody is just dropping the
 * database, or wants to.
 */
bool connect_unnoticed(Oid database, Oid tablespace);

/* What connect_unnoticed() leaves out nobody's database can change; these the server's own settings may not either. */
void set_session_options();

/*
 * Every transaction of a scheduler: with the rights of the owner of the extension's tables, in a
 * restricted operation. README.md, "Rights". Where there are no tables body can do no harm.
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
		/* All that body has set is undone by now, but it said this of its commit. */
		if (lazy)
			commit_lazily();
	});
}

/*
 * The same with the tables locked, of which none is waited for. False, and body does not run: some
 * cannot be locked just now, or the jobs are a publisher's.
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

/* Has SIGTERM come? */
bool asked_to_end();

/* Leave without a word if SIGTERM has come. In a lock wait it ends the process with FATAL. */
void end_if_asked();

/* Sleep until the latch is set or the time is over; then react to signals. */
void nap(int64 milliseconds);

/*
 * Lock the database as somebody who connects to it does, in or outside a transaction and to the
 * end of the process at most, one at a time. False: somebody wants to drop, rename or copy it.
 */
bool lock_database(Oid database);
void unlock_database();

/* Does somebody want to drop, rename or copy the database that we serve? They wait for us to go. */
bool database_is_wanted();

} // namespace pgq
