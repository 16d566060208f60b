/*
 * The scheduler of one database: the background worker for the work that does not belong to a call
 * of a client.
 *
 * The scheduler alternates between a pass over all queues and one step of a duty of the database,
 * the duty that has been due for longest (scheduler_state.h, queue_pass.h, runner.h). This file has
 * the start and the loop of the scheduler.
 */
#include "catalog/version.h"
#include "engine/batch_watch.h"
#include "engine/waiter.h"
#include "pg/stop_point.h"
#include "pg/wait_events.h"
#include "txn/effects.h"
#include "worker/queue_pass.h"
#include "worker/shutdown_save.h"
#include "worker/worker.h"

namespace pgq {

static constinit SchedulerState scheduler = {};

/* ---- end ---- */

static void
leave_role(int, Datum)
{
	uint32 me = my_procno() + 1;
	/*
	 * Wake the launcher. A launcher that was started after this scheduler waits until this
	 * scheduler has ended.
	 */
	if (pg_atomic_compare_exchange_u32(&scheduler.database->scheduler, &me, 0))
		wake_launcher();
}

/*
 * Tell the launcher that this scheduler ends because of SIGTERM or an error, unless retire() has
 * reported another reason already.
 */
static void
say_end(int, Datum)
{
	if (state_of(scheduler.order) <= ExitState::kServing)
		say(scheduler.order, asked_to_end() ? ExitState::kAsked : ExitState::kFailed);
}

static void
say_quit()
{
	say(scheduler.order, ExitState::kQuit);
}

/* ---- start ---- */

namespace {

enum class Finding : uint8
{
	kAbsent,
	kWanted,
	kOtherVersion, /* this library does not support the version of the SQL objects */
	kLocked,	   /* another session has locked the tables */
	kAttached,
};

} // namespace

static Finding
try_to_attach()
{
	if (!extension_installed())
	{
		stop_point("scheduler-absent");
		return Finding::kAbsent;
	}
	if (database_is_wanted())
		return Finding::kWanted;
	if (!version_served())
		return Finding::kOtherVersion;
	if (!lock_tables(AccessShareLock))
		return Finding::kLocked;
	scheduler.database = tables().database;
	scheduler.generation = tables().database_generation;
	return Finding::kAttached;
}

/*
 * Wait until the extension's tables can be locked and the SQL objects have a version that this
 * library supports. Log an unsupported version once.
 */
static void
attach()
{
	Finding finding;
	bool told = false;
	for (;;)
	{
		worker_transaction([&] {
			finding = try_to_attach();
			if (finding == Finding::kOtherVersion && !told)
				report_versions(LOG);
			if (finding == Finding::kAttached && look_at_version() == Served::kBefore)
				report_versions(WARNING);
		});
		told |= finding == Finding::kOtherVersion;
		if (finding == Finding::kAbsent)
			retire(scheduler, ExitState::kAbsent);
		if (finding == Finding::kWanted)
			retire(scheduler, ExitState::kWanted);
		if (finding == Finding::kAttached)
			return;
		/*
		 * Report the state kServing, although this scheduler is still waiting: the launcher then
		 * knows that the database needs a scheduler.
		 */
		say(scheduler.order, ExitState::kServing);
		nap(kHousekeeping / 1000);
	}
}

/*
 * Become the only scheduler of the database; end this process if the database already has a
 * scheduler.
 */
static void
take_role()
{
	uint32 nobody = 0;
	if (!pg_atomic_compare_exchange_u32(&scheduler.database->scheduler, &nobody, my_procno() + 1))
		retire(scheduler, ExitState::kTaken);
	on_shmem_exit(leave_role, (Datum) 0);
	save_leases_at_exit(&scheduler);
	begin_watching_batches(MyDatabaseId);
	say(scheduler.order, ExitState::kServing);
}

/* ---- loop ---- */

/*
 * If the wall clock was set, log the jump, and wake the watcher of each queue, so that it computes
 * the end of its sleep again.
 */
static void
look_at_clock()
{
	int64 jump = scheduler.database->clock.look(wall_now(), monotonic_now());
	if (jump == 0)
		return;
	ereport(LOG, (errmsg("the clock was set %s by %.3f s", jump > 0 ? "forward" : "back",
						 static_cast<double>(Abs(jump)) / USECS_PER_SEC),
				  errdetail("Retention deletes nothing until the clock has been steady for %d s.",
							static_cast<int>(SteadyClock::kProbation / USECS_PER_SEC))));
	for_each_queue(scheduler.database, [](const QueueRef &ref) { wake_watcher(ref); });
}

/* Repeat: a pass over all queues, then one step of the duty that has been due for longest. */
[[noreturn]] static void
work()
{
	for (;;)
	{
		look_at_clock();
		scheduler.commit_level = synchronous_commit;
		int64 next = serve_queues(scheduler);
		next = Min(next, run_most_urgent_duty(scheduler));
		pgstat_report_stat(false);
		nap((Max(0, next - monotonic_now()) + 999) / 1000);
	}
}

static void
begin_state()
{
	scheduler.queue_duties = static_cast<DutyState *>(MemoryContextAllocZero(
		TopMemoryContext, mul_size(max_queues, kQueueDuties * sizeof(DutyState))));
	run_first_duties(scheduler);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PGDLLEXPORT void pgq_scheduler_main(Datum);

void
pgq_scheduler_main(Datum arg)
{
	scheduler.order = order_of_process<StartOrder>();
	on_shmem_exit(say_end, (Datum) 0);
	/* Do this first: SIGABRT is not blocked while a process starts. */
	at_crash_of_others(say_quit);
	say(scheduler.order, ExitState::kRunning);
	start_worker(wait_events.scheduler);
	if (!connect_unnoticed(DatumGetObjectId(arg), scheduler.order.tablespace))
		retire(scheduler, ExitState::kWanted);
	set_session_options();
	attach();
	take_role();
	begin_state();
	work();
}
}
