/*
 * Duties about handlers. The duty of the database reads the handlers, checks whether they may run,
 * and puts what it has found into the slots of their queues. The duty of a queue starts a worker.
 * See handlers.md in the folder worker/.
 */
#include "catalog/lock_order.h"
#include "catalog/queue_row.h"
#include "engine/handler_slot.h"
#include "engine/hold.h"
#include "handlers/check.h"
#include "load/attach.h"
#include "pg/clip.h"
#include "steps/in_hand.h"
#include "worker/queue_pass.h"
#include "worker/worker.h"

namespace pgq {

/* ---- the handlers of the database ---- */

static void
store_setup(const QueueRef &ref, const HandlerSetup &setup)
{
	TimestampTz now = wall_now();
	bool resumes = false;
	(void) change_queue(ref, [&](QueueHold &hold) {
		resumes = hold->handler.setup.state == HandlerSetup::kSuspended &&
				  setup.state != HandlerSetup::kSuspended;
		/*
		 * If the setup has changed, wake the scheduler: its next pass over the queue may start a
		 * worker.
		 */
		if (!(hold->handler.setup == setup))
			hold.wake_scheduler();
		hold->handler.set_up(setup, now);
	});
	/*
	 * While the handler was suspended, workers did not serve the queue. A suspension can end
	 * without a change of the definitions, but workers read the handlers again only after such a
	 * change. So report a change.
	 */
	if (resumes)
		tell_of_definitions(MyDatabaseId);
}

/* Check the handler, and return the setup to store in the slot of its queue. */
static HandlerSetup
setup_of(HandlerRow *row, const char *queue, int64 here)
{
	HandlerSetup setup{};
	bool changed;
	if (row->broken != nullptr)
	{
		setup.state = HandlerSetup::kSuspended;
		copy_clipped(setup.reason,
					 psprintf("its row in pgq_ext.queue_handler is invalid: %s", row->broken));
		return setup;
	}
	setup.run_as = row->run_as;
	setup.workers = row->workers;
	setup.set_at = row->set_at;
	setup.state = row->paused ? HandlerSetup::kPaused : HandlerSetup::kActive;
	Fault fault = fault_of(row, queue, here, &changed);
	if (fault.any() && !row->paused)
		setup.state = HandlerSetup::kSuspended;
	if (fault.any())
		copy_clipped(setup.reason, fault.message);
	if (changed)
		rewrite_function(*row);
	return setup;
}

/* Return whether the list has a handler of the queue. */
static bool
has_handler(const HandlerRow *rows, int n, int32 queue_id)
{
	for (int i = 0; i < n; i++)
		if (rows[i].queue_id == queue_id)
			return true;
	return false;
}

/* Read and check all handlers. Returns their number. */
static int
read_all_handlers(const Database *database)
{
	int n;
	HandlerRow *rows = read_handlers(InvalidOid, &n);
	int64 here = n > 0 ? stamp() : 0;
	for (int i = 0; i < n; i++)
	{
		QueueRef ref;
		QueueName name;
		if (!attach_queue_by_id(tables(), rows[i].queue_id, &ref))
			continue;
		(void) read_name(ref.queue, &name);
		(void) survives([&] { store_setup(ref, setup_of(&rows[i], name.text, here)); });
	}
	for_each_queue(database, [&](const QueueRef &ref) {
		if (!has_handler(rows, n, ref.queue_id))
			store_setup(ref, {});
	});
	return n;
}

/* ---- after a crash of the server ---- */

/*
 * Count the attempt of a job during whose call the server has crashed. The second time the job
 * becomes a dead letter, even if its max_attempts is greater.
 */
static void
count_crash(const CrashSuspect &suspect)
{
	JobRow row;
	TakenLease taken;
	SegmentSet segments(RowExclusiveLock);
	if (find_waiting(segments, suspect.call.job_id, LeaseEnd::kFailed, &row, &taken) ==
		JobFound::kWaiting)
	{
		EndingLease ending = ending_of(taken, row);
		/*
		 * The record of the attempt needs these fields. The crash has erased the lease, which had
		 * them.
		 */
		ending.run.attempt = DatumGetInt32(row.value(kJobAttempts)) + 1;
		ending.run.claimed_at = wall_now();
		strlcpy(ending.run.worker, "handler", sizeof(ending.run.worker));
		Failure failure{};
		failure.fence = ending.run.token;
		failure.retry = suspect.crashes < 2;
		failure.has_error = true;
		failure.error = CStringGetTextDatum("the server crashed while a handler ran the job");
		failure.reason = "the server crashed twice while a handler ran the job";
		(void) end_failed_attempt(segments, ending, failure, true);
	}
	segments.close();
}

/* Let the handler of the queue rest for 1 min, 2 min ... 1 h. */
static void
rest_after_crash(const CrashSuspect &suspect)
{
	QueueRef ref;
	if (!find_attached_queue(tables().database, suspect.call.queue_id, &ref))
		return;
	int64 rest = QueueHandler::delay_of(suspect.crashes - 1, 60 * USECS_PER_SEC) * 60;
	(void) change_queue(ref, [&](QueueHold &hold) {
		hold->handler.rest(rest, monotonic_now(), wall_now());
		/*
		 * job_id is 0 if the call had several jobs. Any of these jobs may have crashed the server,
		 * so the next calls get one job each.
		 */
		if (suspect.call.job_id == 0)
			hold->handler.single_calls = 1000;
	});
}

static void
settle_crashes()
{
	CrashSuspect suspects[kCrashSuspects];
	int n = 0;
	while (n < kCrashSuspects && take_suspect(&suspects[n]))
		n++;
	for (int i = 0; i < n; i++)
	{
		const CrashSuspect &suspect = suspects[i];
		rest_after_crash(suspect);
		if (suspect.call.job_id != 0 && !survives([&] { count_crash(suspect); }))
		{
			return_suspect(suspect);
			continue;
		}
		ereport(LOG, (errmsg("the server crashed while a handler ran a job of queue %d",
							 suspect.call.queue_id),
					  errdetail("Job: %lld (0: several jobs). Crashes: %d.",
								static_cast<long long>(suspect.call.job_id), suspect.crashes)));
	}
}

/* ---- the duty of the database ---- */

/*
 * Give back slots and places of workers that were registered and have not begun. first_run: do so
 * at once. An earlier scheduler has registered these workers, so this scheduler does not wait until
 * they begin.
 */
static void
drop_unbegun(bool first_run)
{
	QueueRef first;
	while (drop_unbegun_slot(first_run, &first))
		(void) change_queue(first, [](QueueHold &hold) {
			hold->handler.places--;
			hold.care_for_rest();
		});
}

int64
watch_handlers(SchedulerState &scheduler)
{
	static constexpr int64 kSoon = 20 * 1000;
	auto &state = scheduler.handlers;
	uint32 changes = value_of(scheduler.database->definition_changes);
	bool read = false;
	bool first = !state.known;
	/*
	 * If the tables are locked, try again later. Memory notes a TRUNCATE at its commit, a moment
	 * before the TRUNCATE releases its lock. So the first try after a change is repeated soon.
	 */
	state.not_before = monotonic_now() + (state.tried == changes ? kHousekeeping : kSoon);
	state.tried = changes;
	if (max_handler_workers == 0)
		return INT64_MAX;
	/*
	 * Workers that an ended scheduler has registered may never begin. No other code gives back
	 * their slots and places.
	 */
	drop_unbegun(first);
	if (state.known && state.changes == changes && state.n == 0)
		return monotonic_now() + kHousekeeping;
	bool changed = first || state.changes != changes;
	(void) serving_transaction(RowExclusiveLock, [&] {
		read_few_rows();
		if (OidIsValid(look_at_tables().queue_handler()) &&
			!ConditionalLockRelationOid(look_at_tables().queue_handler(), RowExclusiveLock))
			return;
		state.n = read_all_handlers(scheduler.database);
		settle_crashes();
		state.known = read = true;
	});
	if (read)
	{
		state.changes = changes;
		state.not_before = 0;
	}
	if (changed && read)
	{
		(void) wake_handler_workers();
		/* The next pass over the queues starts workers for jobs that wait already. */
		SetLatch(MyLatch);
	}
	return monotonic_now() + kHousekeeping;
}

int64
handlers_wanted_at(const SchedulerState &scheduler)
{
	const auto &state = scheduler.handlers;
	uint32 changes = value_of(scheduler.database->definition_changes);
	if (!state.known || state.changes == changes)
		return scheduler.duties[kHandlersDuty].due;
	/* Only a try to read these changes can make the next try wait; a new change is read at once. */
	int64 now = monotonic_now();
	return state.tried == changes ? Max(now, state.not_before) : now;
}

/* ---- the duty of a queue: start a worker ---- */

bool
wants_worker(const QueuePass &pass, bool failing)
{
	return pass.wants_worker;
}

/* Write to the log, at most once a minute, that no background worker is free. */
static void
complain_of_workers()
{
	static constinit int64 told = 0;
	int64 now = monotonic_now();
	if (told != 0 && now - told < USECS_PER_MINUTE)
		return;
	told = now;
	ereport(LOG, (errmsg("pgq_ext could not start a worker for a handler"),
				  errhint("Raise max_worker_processes (now %d) and restart the server.",
						  max_worker_processes)));
}

/*
 * Register a worker. If that fails, or if a database lacks a background worker for its scheduler,
 * give the slot back and return false.
 */
static bool
start_worker_process(HandlerOrder *order)
{
	BackgroundWorkerHandle *handle;
	order->tablespace = MyDatabaseTableSpace;
	if (value_of(shared->missing_schedulers) == 0 &&
		start_process(kHandlerType, "pgq_handler_main", MyDatabaseId, *order, &handle))
	{
		pfree(handle);
		return true;
	}
	return_handler_slot(*order);
	return false;
}

int64
start_handler_worker(const QueueRef &ref, const QueuePass &)
{
	HandlerOrder order;
	Oid role = InvalidOid;
	int64 since = 0;
	(void) change_queue(ref, [&](QueueHold &hold) {
		role = hold->handler.setup.run_as;
		since = hold->handler.claimable_since;
	});
	/*
	 * If the role has an idle worker, that worker was most probably woken when the job became
	 * ready. But a worker waits at max_claim_queues queues at most, so perhaps no idle worker waits
	 * at this queue. So wake all handlers' workers of this database, which then look at their
	 * queues. Start another worker only if jobs still wait kStartDelay later.
	 */
	int64 now = monotonic_now();
	if (workers_of_role(role).idle > 0 && now < since + QueueHandler::kStartDelay)
	{
		(void) wake_handler_workers();
		return since + QueueHandler::kStartDelay;
	}
	bool placed = false;
	(void) change_queue(ref, [&](QueueHold &hold) {
		placed = hold->handler.setup.run_as == role && hold->handler.take_place(now);
		if (placed)
			hold->handler.last_start = now;
	});
	if (!placed)
		return INT64_MAX;
	/*
	 * SIGTERM can end this process at a log message. So log a failure only after the place was
	 * given back.
	 */
	bool has_slot = take_handler_slot(role, ref, &order);
	bool started = has_slot && start_worker_process(&order);
	(void) change_queue(ref, [&](QueueHold &hold) {
		hold->handler.wants_slot = !started;
		if (!started)
			hold->handler.places--;
	});
	/* An idle worker may have looked at the queue while the place was taken, or have a slot. */
	if (!started)
		wake_idle_workers();
	if (has_slot && !started)
		complain_of_workers();
	return started ? INT64_MAX : monotonic_now() + kHousekeeping;
}

} // namespace pgq
