/*
 * A handler's worker: a background worker that runs jobs of the queues with a handler. It is logged
 * in as one role in one database, and serves all queues there whose handlers run as this role. See
 * handlers.md in this folder, and the README of handlers/.
 *
 * The worker repeats: choose the queue that was served longest ago, take a place there, claim jobs
 * and run them. If no queue has a job, it waits in the lines of the queues, as a claim with `wait`
 * does, but outside of transactions (protocol: idle-holds-nothing).
 */
#include "catalog/version.h"
#include "engine/handler_slot.h"
#include "engine/hold.h"
#include "engine/waiter.h"
#include "handlers/handled_lease.h"
#include "load/attach.h"
#include "pg/wait_events.h"
#include "worker/call_error.h"
#include "worker/call_timer.h"
#include "worker/handler_list.h"
#include "worker/run_jobs.h"
#include "worker/worker.h"

namespace pgq {

namespace {

struct HandlerWorker
{
	HandlerOrder order;
	Database *database;
	HandlerList list;
	HandledJobs jobs; /* the jobs in hand */
	QueueRef place;	  /* the queue at which the worker has a place */
	bool has_place;
	bool is_idle; /* the worker has waited for work, and has not found a job since */
	int64 began;  /* monotonic, as the other times */
	int64 idle_since;
	int64 looked_around;
	int64 reported; /* when statistics were last reported */
	/*
	 * number of consecutive waits that began although a queue had jobs, because this worker's
	 * claims had got none of them (for example locked rows); each such wait is longer than the last
	 */
	int fruitless;
	int64 calls; /* number of claims that have found a job */
	Size memory; /* size of TopMemoryContext after the start */
};

} // namespace

static constinit HandlerWorker worker = {};

/* ---- places ---- */

/*
 * Give the place back. If jobs are left, another worker, a claim or the scheduler has to care for
 * them.
 */
static void
give_place_back()
{
	if (!worker.has_place)
		return;
	worker.has_place = false;
	(void) change_queue(worker.place, [](QueueHold &hold) {
		hold->handler.places--;
		hold.care_for_rest();
	});
}

/*
 * Take a place at the queue, instead of the place that the worker has, if a claim may find a job
 * there.
 */
static bool
take_place(const QueueRef &ref)
{
	bool taken = false;
	bool has = worker.has_place && worker.place.queue == ref.queue &&
			   worker.place.generation == ref.generation;
	if (!has)
		give_place_back();
	(void) change_queue(ref, [&](QueueHold &hold) {
		int64 now = monotonic_now();
		taken = hold.is_claimable() &&
				(has ? hold->handler.may_call(now) : hold->handler.take_place(now));
		if (taken)
			hold->handler.served_at = now;
	});
	if (!taken)
	{
		give_place_back();
		return false;
	}
	worker.place = ref;
	worker.has_place = true;
	return true;
}

/* ---- the end ---- */

static void
leave(int, Datum)
{
	leave_lines(nullptr);
	leave_handled(worker.jobs);
	worker.jobs.n = 0;
	give_place_back();
	for (int i = 0; i < worker.list.size() && worker.is_idle; i++)
		(void) change_queue(worker.list[i].ref, [](QueueHold &hold) { hold.hand_over(); });
	(void) change_queue(worker.order.first, [](QueueHold &hold) {
		hold->handler.note_worker_end(worker.calls > 0, monotonic_now());
	});
	end_handler_worker();
}

[[noreturn]] static void
end_worker()
{
	proc_exit(0);
}

/*
 * End the process if it should not go on, between two calls. A new process also drops what handlers
 * may have left in the memory of the session.
 */
static void
end_if_due(bool idle)
{
	static constexpr int64 kQuantum = USECS_PER_SEC;
	static constexpr int64 kLongestLife = 60 * USECS_PER_MINUTE;
	static constexpr int64 kMostCalls = 100000;
	static constexpr Size kMostMemory = 64 * 1024 * 1024;
	int64 now = monotonic_now();
	if (must_stop())
		end_worker();
	if (now - worker.began > kQuantum && others_want_slot())
		end_worker();
	if (now - worker.began > kLongestLife || worker.calls >= kMostCalls)
		end_worker();
	if (idle && value_of(shared->missing_schedulers) > 0)
		end_worker();
	if (now - worker.looked_around < USECS_PER_SEC)
		return;
	worker.looked_around = now;
	if (database_is_wanted() ||
		MemoryContextMemAllocated(TopMemoryContext, true) > worker.memory + kMostMemory)
		end_worker();
}

/* ---- one queue ---- */

static void
be_idle(bool idle)
{
	if (worker.is_idle != idle)
		set_handler_idle(idle);
	worker.is_idle = idle;
}

/*
 * This process begins a call. Its wake-up may have been for another job or another queue, so let
 * other processes care for the jobs that are left.
 */
static void
tell_of_more(bool woken)
{
	for (int i = 0; i < worker.list.size(); i++)
		if (woken || worker.list[i].ref.queue == worker.place.queue)
			(void) change_queue(worker.list[i].ref, [](QueueHold &hold) { hold.care_for_rest(); });
}

/* Return how many jobs the next claim may take. */
static int
next_batch(const ServedHandler &handler)
{
	int batch = 1;
	(void) look_at_queue(handler.ref, [&](const Queue &queue) {
		batch = queue.handler.next_batch(handler.row.batch);
	});
	return calls_are_careful() ? 1 : batch;
}

/*
 * Run the jobs in hand, unless the handler has changed or was suspended since the claim: then give
 * the jobs back, and look again.
 */
static void
run_claimed(int32 queue_id)
{
	HandledJobs &jobs = worker.jobs;
	bool served = worker.list.refresh(worker.database);
	ServedHandler *handler = served ? worker.list.find(queue_id) : nullptr;
	if (handler == nullptr)
		leave_handled(jobs);
	else
		run_jobs(handler->row, handler->queue, &jobs);
	jobs.n = 0;
}

/*
 * Claim jobs of the queue and run them. Returns false if there is no job. The claim can fail, for
 * example because no lease is left, or because a right was revoked; then try again later.
 */
static bool
serve(ServedHandler &handler)
{
	/* Claim in a transaction of its own (T1). If it fails, the queue rests and is checked again. */
	HandledJobs &jobs = worker.jobs;
	volatile bool failed = false;
	MemoryContextReset(jobs.memory);
	PG_TRY();
	{
		claim_handled(handler.row, next_batch(handler), &jobs);
	}
	PG_CATCH();
	{
		failed = true;
		note_claim_error(handler.ref);
	}
	PG_END_TRY();
	if (failed)
	{
		jobs.n = 0;
		worker.list.doubt();
		return false;
	}
	if (jobs.n == 0)
		return false;
	worker.calls++;
	worker.fruitless = 0;
	tell_of_more(worker.is_idle);
	be_idle(false);
	run_claimed(handler.row.queue_id);
	return true;
}

/* Serve the queues in turn, until one has given a job. Returns false if none had a job. */
static bool
serve_next()
{
	worker.list.sort();
	for (int i = 0; i < worker.list.size(); i++)
		if (take_place(worker.list[i].ref) && serve(worker.list[i]))
			return true;
	give_place_back();
	return false;
}

/* ---- waiting ---- */

/* Return how long the worker may sleep, in milliseconds. */
static int64
nap_time(const Alarm &alarm, int64 until)
{
	static constexpr int64 kLongest = USECS_PER_SEC;
	int64 now = monotonic_now();
	int64 nap = Min(until - now, kLongest);
	if (alarm.run_at != INT64_MAX)
		nap = Min(nap, Max<int64, int64>(alarm.run_at - wall_now(), 0));
	if (alarm.start != INT64_MAX)
		nap = Min(nap, Max<int64, int64>(alarm.start - now, 0));
	return Max<int64, int64>(nap, 1000) / 1000;
}

/* More than any setting of pgq_ext.max_claim_queues. */
static constexpr int kMostLines = 1024;

/*
 * Join the lines of the queues at which this process could have a place. In other lines this
 * process would take wake-ups that it cannot use, so it hands those lines over to other processes.
 * A process can be in at most max_claim_queues lines. For jobs of other queues the scheduler wakes
 * this process.
 */
static void
join_useful_lines()
{
	QueueRef refs[kMostLines];
	int n = 0;
	int most = Min(max_claim_queues, kMostLines);
	for (int i = 0; i < worker.list.size(); i++)
	{
		bool useful = false;
		(void) change_queue(worker.list[i].ref, [&](QueueHold &hold) {
			useful = n < most && hold->handler.has_room(monotonic_now());
			if (!useful)
				hold.hand_over();
		});
		if (useful)
			refs[n++] = worker.list[i].ref;
	}
	join_lines(refs, n, true);
}

/*
 * Wait in the lines of the queues, outside of transactions, until this process is woken or
 * `until` (monotonic), for a second at most. Then the caller looks for jobs.
 */
static void
wait_for_work(int64 until)
{
	Alarm alarm;
	bool claimable = false;
	be_idle(true);
	join_useful_lines();
	bool woken = rejoin_lines(&alarm);
	/*
	 * Look at the queues once more: a commit before this process was in the line has not woken it.
	 */
	for (int i = 0; i < worker.list.size() && !woken && !claimable; i++)
		(void) change_queue(worker.list[i].ref, [&](QueueHold &hold) {
			claimable = hold.is_claimable() && hold->handler.has_room(monotonic_now());
		});
	if (woken)
		worker.fruitless = 0;
	/*
	 * If the last claim found none of the jobs, for example because their rows are locked, sleep
	 * for a growing time and look again.
	 */
	if (claimable)
		nap((int64{1} << Min(worker.fruitless++, 10)) - 1);
	else
		nap(woken ? 0 : nap_time(alarm, until));
	leave_lines_to_look();
	/* Learn of changes of handlers, functions, roles and rights. */
	StartTransactionCommand();
	CommitTransactionCommand();
}

static void
report_statistics(int64 now)
{
	if (now - worker.reported < USECS_PER_SEC)
		return;
	worker.reported = now;
	pgstat_report_stat(false);
}

[[noreturn]] static void
serve_forever()
{
	worker.idle_since = monotonic_now();
	for (;;)
	{
		handle_signals();
		end_if_due(worker.is_idle);
		if (!worker.list.refresh(worker.database) || worker.list.size() == 0)
			end_worker();
		int64 now = monotonic_now();
		report_statistics(now);
		if (serve_next())
		{
			worker.idle_since = monotonic_now();
			continue;
		}
		int64 end = worker.idle_since + worker.list.longest_idle();
		if (now >= end)
			end_worker();
		pgstat_report_activity(STATE_IDLE, nullptr);
		wait_for_work(end);
	}
}

/* ---- the start ---- */

static Database *
find_own_database()
{
	Database *database = nullptr;
	begin_handler_transaction(true);
	if (extension_installed() && version_served())
		database = tables().database;
	PopActiveSnapshot();
	CommitTransactionCommand();
	return database;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PGDLLEXPORT void pgq_handler_main(Datum);

void
pgq_handler_main(Datum arg)
{
	worker.order = order_of_process<HandlerOrder>();
	worker.began = monotonic_now();
	worker.jobs.memory =
		AllocSetContextCreate(TopMemoryContext, "pgq_ext handled jobs", ALLOCSET_DEFAULT_SIZES);
	worker.list.init(TopMemoryContext);
	/*
	 * No code that can raise an error may stand between these steps: the slot and the place would
	 * stay taken without end.
	 */
	if (!begin_handler_worker(worker.order))
		proc_exit(0);
	worker.place = worker.order.first;
	worker.has_place = true;
	on_shmem_exit(leave, (Datum) 0);
	start_worker(wait_events.handler, true);
	call_timer_init();
	if (!connect_as_role(DatumGetObjectId(arg), worker.order.tablespace, worker.order.role))
		proc_exit(0);
	note_own_roles();
	worker.database = find_own_database();
	if (worker.database == nullptr)
		proc_exit(0);
	worker.memory = MemoryContextMemAllocated(TopMemoryContext, true);
	serve_forever();
}
}
