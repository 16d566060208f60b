/*
 * The scheduler of one database: what nobody else may have the time for.
 *
 * It serves the queues: expires leases, puts parked jobs back, counts lost attempts in their
 * rows, reads ahead into windows and timers. In between it takes one step at a time of its
 * other duties, that which has been due for longest. Each duty fails alone: see duty.h. All it
 * does can be interrupted anywhere: it keeps no state that shared memory or the tables do
 * not have.
 */
#include "engine/doubt.h"
#include "engine/seat.h"
#include "engine/waiter.h"
#include "pg/scope.h"
#include "pg/stop_point.h"
#include "jobs/attempt.h"
#include "catalog/own_trigger.h"
#include "catalog/queue_row.h"
#include "catalog/version.h"
#include "load/reconcile.h"
#include "load/refill.h"
#include "catalog/token_key.h"
#include "catalog/token_mark.h"
#include "txn/effects.h"
#include "worker/duty.h"
#include "worker/farewell.h"
#include "worker/retention.h"
#include "worker/rotation.h"
#include "worker/worker.h"

namespace pgq {

static constexpr int64 kHousekeeping = USECS_PER_SEC;
static constexpr int kReapBatch = 64;
static constexpr int64 kWatchInterval = 100 * 1000; /* prepared transactions end unannounced */

static constinit Database *database = nullptr;
static constinit uint32 database_generation = 0;
static constinit SeatOrder order = {};
static constinit int commit_level = 0; /* synchronous_commit, where nothing is set otherwise */

/* ---- the role ---- */

static void
leave_role(int, Datum)
{
	uint32 me = my_procno() + 1;
	/* A launcher that has not started us waits for this. */
	if (pg_atomic_compare_exchange_u32(&database->scheduler, &me, 0))
		wake_launcher();
}

/* Whoever ends otherwise has been asked to, or has met an error. */
static void
say_end(int, Datum)
{
	SeatState state = state_of(order);
	if (state <= SeatState::kServing)
		say(order, asked_to_end() ? SeatState::kAsked : SeatState::kFailed);
}

static void
quit(int signal)
{
	say(order, SeatState::kQuit);
	SignalHandlerForCrashExit(signal);
}

[[noreturn]] static void
retire(SeatState why)
{
	if (why == SeatState::kAbsent)
		free_other_incarnations(MyDatabaseId, InvalidOid);
	say(order, why);
	proc_exit(0);
}

/*
 * Somebody wants to drop, rename or copy the database: they hold a lock on it
 * and wait for us to go (B4).
 */
static bool
database_is_wanted()
{
	if (!lock_database(MyDatabaseId))
		return true;
	unlock_database();
	return false;
}

/*
 * Without being in anybody's way, and without a line in the log if the database is just being
 * dropped: with its lock in hand nobody drops it, and what has been dropped has no files.
 */
static void
connect_unnoticed(Oid oid)
{
	if (!lock_database(oid))
		retire(SeatState::kWanted);
	char *files = GetDatabasePath(oid, order.tablespace);
	bool exists = access(files, F_OK) == 0;
	if (!exists)
	{
		unlock_database();
		retire(SeatState::kWanted);
	}
	connect_to(oid);
	unlock_database();
	pfree(files);
}

/*
 * Attach the database. False as long as somebody has locked its tables, or, with a
 * line in the log, as the extension is of another version than the library.
 */
static bool
attach()
{
	static constinit bool told = false;
	bool installed = false;
	bool wanted = false;
	bool agree = false;
	bool attached = false;
	worker_transaction([&] {
		installed = extension_installed();
		wanted = database_is_wanted();
		if (!installed)
			stop_point("scheduler-absent");
		if (!installed || wanted)
			return;
		agree = versions_agree();
		attached = agree && lock_tables(AccessShareLock);
		if (attached)
		{
			database = tables().database;
			database_generation = tables().database_generation;
		}
		else if (!agree && !told)
			report_versions(LOG);
		told |= !agree;
	});
	if (!installed || wanted)
		retire(installed ? SeatState::kWanted : SeatState::kAbsent);
	return attached;
}

/* Become the only scheduler of the database, or retire. */
static void
take_role()
{
	while (!attach())
	{
		say(order, SeatState::kServing); /* or will, when the versions agree */
		nap(kHousekeeping / 1000);
	}
	uint32 nobody = 0;
	if (!pg_atomic_compare_exchange_u32(&database->scheduler, &nobody, my_procno() + 1))
		retire(SeatState::kTaken);
	on_shmem_exit(leave_role, (Datum) 0);
	save_leases_at_exit(database, database_generation);
	say(order, SeatState::kServing);
}

/* ---- housekeeping ---- */

/* Does anything happen here that the durable mark must stay ahead of? */
static bool
was_active()
{
	static constinit int64 before = -1;
	int64 sum = 0;
	for_each_queue(database, [&](const QueueRef &ref) {
		with_lwlock(ref.queue->lock, LW_SHARED,
					[&] { sum += ref.queue->counters.enqueued + ref.queue->counters.handed_out; });
	});
	bool active = sum != before;
	before = sum;
	return active;
}

/* Ahead of need, so that no claim has to do it. */
static int64
keep_token_mark_ahead()
{
	static constexpr int64 kLead = 30 * USECS_PER_SEC;
	if (was_active() && !token_mark_is_ahead(database, kLead))
		worker_transaction([] {
			if (lock_tables(AccessShareLock))
				advance_token_mark(kLead, false, commit_level);
		});
	forget_saved_leases();
	return monotonic_now() + kHousekeeping;
}

/* What has no queues needs no scheduler, but may get one back soon. */
static void
leave_if_idle(const Attached &queues)
{
	static constexpr int64 kPatience = 5 * USECS_PER_SEC;
	static constinit int64 last_busy = -kPatience;
	int64 now = monotonic_now();
	if (queues.queues > 0 || has_queues(MyDatabaseId))
		last_busy = now;
	else if (now - last_busy > kPatience)
		retire(SeatState::kIdle);
}

static void
complain_of_rows(const Attached &queues)
{
	static constinit Attached told = {};
	if (queues.left_out > 0 && told.left_out == 0)
		ereport(LOG,
				(errmsg("%d queues have found no place in shared memory", queues.left_out),
				 errhint("Raise pgq_ext.max_queues (now %d) and restart the server.", max_queues)));
	if (queues.unreadable > 0 && told.unreadable == 0)
		ereport(LOG, (errmsg("%d rows of pgq_ext.queue have no name that a queue can have",
							 queues.unreadable),
					  errhint("Delete them, or give them names of 1 to %d bytes.", kQueueNameMax)));
	told = queues;
}

/* Is anybody waiting for the database, is the extension here still? Nothing else may keep us from asking. */
static int64
look_around()
{
	bool gone = false;
	bool wanted = false;
	worker_transaction([&] {
		gone = !extension_installed();
		/* With another version the next scheduler waits. */
		wanted = database_is_wanted() || (!gone && !versions_agree());
	});
	if (gone || wanted)
		retire(gone ? SeatState::kAbsent : SeatState::kWanted);
	return monotonic_now() + kHousekeeping;
}

/* Slots follow their rows, and the trigger that tells of jobs is on. */
static int64
attach_queues()
{
	bool locked = false;
	bool anew = false;
	bool doubtful = false;
	Attached queues = {};
	worker_transaction([&] {
		/* Locked: by a DROP EXTENSION that has not ended, for example. */
		locked = lock_tables(AccessShareLock);
		if (!locked)
			return;
		const Tables &t = tables();
		anew = t.database != database || t.database_generation != database_generation;
		if (anew)
			return;
		queues = attach_all_queues(t);
		for (const Segment &segment : t.segments(kJobRing))
			if (segment.muted)
				doubtful |= restore_triggers(segment.heap);
		keep_token_key(t);
	});
	if (anew)
		retire(SeatState::kWanted); /* created anew: the next scheduler starts from scratch */
	if (!locked)
		return monotonic_now() + kHousekeeping;
	leave_if_idle(queues);
	if (doubtful)
		distrust_all(MyDatabaseId);
	free_other_incarnations(MyDatabaseId, database->incarnation);
	complain_of_rows(queues);
	return monotonic_now() + kHousekeeping;
}

/* ---- a queue's turn ---- */

struct Turn
{
	int64 next_event; /* monotonic */
	bool lost;
	bool failing; /* some lost leases have been put off */
	bool wants_window;
	bool wants_timer;
};

/* A timer can be due already while somebody else is reading it in: look again soon. */
static int64
until(TimestampTz timer, TimestampTz now)
{
	static constexpr int64 kSoon = 10 * 1000;
	return timer < now || timer - now < kSoon ? kSoon : timer - now;
}

static Turn
take_turn(const QueueRef &ref)
{
	Queue *queue = ref.queue;
	Wakeups wakeups;
	Turn turn = with_lwlock(queue->lock, LW_EXCLUSIVE, [&]() -> Turn {
		if (!is_current(ref))
			return {.next_event = INT64_MAX,
					.lost = false,
					.failing = false,
					.wants_window = false,
					.wants_timer = false};
		int64 monotonic = monotonic_now();
		TimestampTz now = wall_now();
		int64 timer_before = queue->schedule.next_timer();
		queue->schedule.fire(now);
		expire_due(queue, monotonic);
		int ready = unpark_due(queue, monotonic) + static_cast<int>(queue->schedule.take_fired());
		note_filed(queue, ready, timer_before, &wakeups);

		if (first_lost(queue) == nullptr)
			queue->served_at = monotonic;

		int64 next = next_lease_event(queue);
		int64 timer = queue->schedule.next_timer();
		if (queue->options.notify && timer != INT64_MAX)
			next = Min(next, monotonic + until(timer, now));
		return {.next_event = next,
				.lost = first_lost(queue) != nullptr,
				.failing = queue->failing > 0,
				.wants_window = queue->schedule.wants_window_refill(),
				.wants_timer = queue->schedule.wants_timer_refill()};
	});
	wakeups.deliver();
	return turn;
}

/* False: the locks could not be had, or the jobs are not ours. */
static bool
read_ahead(const QueueRef &ref, RefillResult (*refill)(const QueueRef &, bool))
{
	bool served = false;
	worker_transaction([&] {
		served = lock_and_serve(AccessShareLock);
		if (served)
			refill(ref, false);
	});
	return served;
}

/* ---- reconciling ---- */

/*
 * A few rows at a time: what looked odd the last time is looked at again, then some
 * more rows are read. A queue of a million jobs is read through in ten minutes.
 */
static int64
reconcile()
{
	static constexpr int kRows = 2000;
	static constinit Reconciliation state = {};
	static constinit bool under_way = false;
	/* It has raised: what is damaged in one segment must not keep it from the others. */
	if (under_way)
		skip_segment(&state);
	under_way = true;
	worker_transaction([] {
		if (!lock_and_serve(AccessShareLock))
			return;
		repair_forgotten(&state, nullptr, nullptr);
		if (!reconcile_rows(&state, kRows))
			pg_atomic_fetch_add_u64(&database->reconciled, 1);
	});
	under_way = false;
	return monotonic_now() + kHousekeeping;
}

/* ---- lost attempts ---- */

struct Reaped
{
	Lease *lease;
	Place place;
	int64 job_id;
	int64 token;
	Loss loss;
};

static int
collect_lost(const QueueRef &ref, Reaped *reaped, QueueOptions *options)
{
	Queue *queue = ref.queue;
	return with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		int n = 0;
		if (!is_current(ref))
			return n;
		*options = queue->options;
		while (n < kReapBatch)
		{
			Lease *lease = first_lost(queue);
			if (lease == nullptr)
				break;
			add_reap_effect(ref, lease);
			reap_lease(lease);
			reaped[n++] = {lease, lease->hint.place, lease->key.job_id, token_of(lease),
						   lease->loss};
		}
		return n;
	});
}

static const char *
reason_of(Loss loss)
{
	switch (loss)
	{
		case Loss::kExpired:
			return "the lease expired";
		case Loss::kUnreturnable:
			return "the row could not be returned by a claim";
		case Loss::kUndone:
			break;
	}
	return "the claiming transaction was rolled back or its session ended";
}

static void
reap(const QueueRef &ref, const QueueOptions &options, const Reaped &r)
{
	SegmentSet segments(RowExclusiveLock);
	Failure failure{};
	failure.fence = r.token;
	failure.retry = true;
	failure.has_error = true;
	failure.error = CStringGetTextDatum(reason_of(r.loss));
	(void) end_failed_attempt(segments, {ref, options, r.lease, r.job_id, r.place}, failure, false);
	segments.close();
}

struct ReapResult
{
	bool able; /* to try: false if the locks could not be had, or the jobs are not ours */
	bool full; /* there may be more */
};

/* The batch ends where memory or disk do: the others would fail as well. */
static void
reap_batch(const QueueRef &ref, const QueueOptions &options, const Reaped *reaped, int n,
		   bool *short_of_resources)
{
	*short_of_resources = false;
	for (int i = 0; i < n; i++)
		if (*short_of_resources)
			set_end(reaped[i].lease, LeaseEnd::kStillLost);
		else if (!survives([&] { reap(ref, options, reaped[i]); }, short_of_resources))
			set_end(reaped[i].lease, LeaseEnd::kLostFailing);
}

/* One batch. Never waits for a lock on a row: a busy one stays lost until later. */
static ReapResult
reap_lost(const QueueRef &ref)
{
	ReapResult result = {};
	bool short_of_resources = false;
	worker_transaction([&] {
		result.able = lock_and_serve(RowExclusiveLock);
		if (!result.able)
			return;
		Reaped reaped[kReapBatch];
		QueueOptions options;
		reserve_lease_effects(kReapBatch);
		int n = collect_lost(ref, reaped, &options);
		stop_point("reap");
		reap_batch(ref, options, reaped, n, &short_of_resources);
		result.full = n == kReapBatch;
	});
	if (short_of_resources)
		back_off(current_duty);
	result.able &= !short_of_resources;
	return result;
}

/* ---- NOTIFY ---- */

static constinit int64 last_notify = 0;

/* Take the queues that have something to tell. */
static int
take_pending(char (*channels)[NAMEDATALEN], int most)
{
	int n = 0;
	for_each_queue(database, [&](const QueueRef &ref) {
		with_lwlock(ref.queue->lock, LW_EXCLUSIVE, [&] {
			if (n == most || !ref.queue->notify_pending || !is_current(ref))
				return;
			ref.queue->notify_pending = false;
			strlcpy(channels[n], "pgq_", NAMEDATALEN);
			strlcat(channels[n++], ref.queue->name, NAMEDATALEN);
		});
	});
	return n;
}

static bool
anything_pending()
{
	bool pending = false;
	for_each_queue(database, [&](const QueueRef &ref) { pending |= ref.queue->notify_pending; });
	return pending;
}

/* After a start nobody knows what the last scheduler still had to tell. */
static void
assume_pending()
{
	for_each_queue(database, [](const QueueRef &ref) {
		with_lwlock(ref.queue->lock, LW_EXCLUSIVE,
					[&] { ref.queue->notify_pending = ref.queue->options.notify; });
	});
}

static int64
notify_wanted_at()
{
	return anything_pending() ? last_notify + static_cast<int64>(notify_interval) * 1000
							  : INT64_MAX;
}

static int64
send_notifications()
{
	static constinit bool owed = false;
	/* It has raised: whatever it had taken is still to be told. */
	if (owed)
		assume_pending();
	owed = true;
	worker_transaction([&] {
		auto *channels =
			static_cast<char(*)[NAMEDATALEN]>(palloc(static_cast<Size>(max_queues) * NAMEDATALEN));
		commit_lazily();
		int n = lock_and_serve(AccessShareLock) ? take_pending(channels, max_queues) : 0;
		for (int i = 0; i < n; i++)
			Async_Notify(channels[i], "");
	});
	owed = false;
	last_notify = monotonic_now();
	return INT64_MAX;
}

/* ---- the loop ---- */

/* What connect_to() leaves out nobody's database can change; these the server's own settings may not either. */
static void
set_session_options()
{
	static const struct
	{
		const char *name;
		const char *value;
	} options[] = {
		{"synchronous_commit", "local"},
		{"search_path", "pg_catalog, pg_temp"},
		{"session_replication_role", "replica"}, /* as in spi.h */
		{"lock_timeout", "0"},
		{"transaction_timeout", "0"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"row_security", "on"},
		{"plan_cache_mode", "auto"},
		{"enable_partition_pruning", "on"},
	};
	for (const auto &option : options)
		/* One of them is newer than this server, perhaps. */
		if (GetConfigOption(option.name, true, false) != nullptr)
			SetConfigOption(option.name, option.value, PGC_SUSET, PGC_S_OVERRIDE);
}

/* ---- what is done for each queue ---- */

/* The state of a queue's duty, by slot; in the memory of this process. */
static DutyState *
state_of(const QueueRef &ref, QueueDuty which)
{
	static constinit DutyState *states = nullptr;
	if (states == nullptr)
		states = static_cast<DutyState *>(MemoryContextAllocZero(
			TopMemoryContext, mul_size(max_queues, kQueueDuties * sizeof(DutyState))));
	auto i = static_cast<int>(which);
	DutyState *state = &states[(ref.queue - shared->queues) * kQueueDuties + i];
	if (state->name == nullptr || state->generation != ref.generation)
		*state = {.name = queue_duty_names[i],
				  .note = &ref.queue->duties[i],
				  .lock = ref.queue->lock,
				  .queue = ref.queue,
				  .generation = ref.generation};
	return state;
}

/* Returns the monotonic time of the next try. */
static int64
count_lost(const QueueRef &ref, const Turn &turn)
{
	DutyState *duty = state_of(ref, QueueDuty::kLostLeases);
	/* A failing lease may have ended otherwise. */
	bool cured = duty->noted && !turn.failing;
	if (!turn.lost && !cured)
		return INT64_MAX;
	if (duty->not_before > monotonic_now())
		return duty->not_before;
	int64 next = INT64_MAX;
	(void) run_duty(duty, &next, [&]() -> int64 {
		ReapResult result = {.able = true, .full = false};
		if (turn.lost)
			result = reap_lost(ref);
		int64 now = monotonic_now();
		with_lwlock(ref.queue->lock, LW_EXCLUSIVE, [&] {
			if (!is_current(ref))
				return;
			if (result.able)
				ref.queue->served_at = now;
			if (ref.queue->failing > 0)
				keep_failing();
		});
		return result.able && result.full ? now : now + kParkTime;
	});
	return Max(next == INT64_MAX ? 0 : next, duty->not_before);
}

/* The same. What cannot be read now will be wanted again at once, and not be had. */
static int64
read_if_wanted(const QueueRef &ref, bool wanted, QueueDuty which,
			   RefillResult (*refill)(const QueueRef &, bool))
{
	DutyState *duty = state_of(ref, which);
	if (!wanted)
		return INT64_MAX;
	if (duty->not_before > monotonic_now())
		return duty->not_before;
	int64 next = INT64_MAX;
	if (run_duty(duty, &next, [&]() -> int64 {
			return read_ahead(ref, refill) ? INT64_MAX : monotonic_now() + kParkTime;
		}))
		return next;
	return duty->not_before;
}

/* One batch for each, in turn. Returns the monotonic time of the next thing to do. */
static int64
serve_queues()
{
	if (any_prepared())
		resolve_prepared();
	int64 next = any_prepared() ? monotonic_now() + kWatchInterval : INT64_MAX;
	for_each_queue(database, [&](const QueueRef &ref) {
		Turn turn = take_turn(ref);
		int64 lost = count_lost(ref, turn);
		int64 window = read_if_wanted(ref, turn.wants_window, QueueDuty::kWindow, refill_window);
		int64 timer = read_if_wanted(ref, turn.wants_timer, QueueDuty::kTimer, refill_timer);
		next = Min(Min(next, turn.next_event), Min(lost, Min(window, timer)));
	});
	return next;
}

/* ---- the other duties ---- */

static int64
rotate()
{
	return rotate_segments(database);
}

static constinit SteadyClock wall_clock = {};

static void
look_at_clock()
{
	int64 jump = wall_clock.look(wall_now(), monotonic_now());
	if (jump == 0)
		return;
	ereport(LOG, (errmsg("the clock was set %s by %.3f s", jump > 0 ? "forward" : "back",
						 static_cast<double>(Abs(jump)) / USECS_PER_SEC),
				  errdetail("Nothing is deleted by it before it has gone steadily for %d s.",
							static_cast<int>(SteadyClock::kProbation / USECS_PER_SEC))));
	for_each_queue(database, [](const QueueRef &ref) { wake_watcher(ref); });
}

static int64
retain()
{
	return apply_retention(wall_clock);
}

/* run() returns the monotonic time of its next run; wanted_at() says it before, where others decide. */
struct DutyEntry
{
	int64 (*run)();
	int64 (*wanted_at)();
};
/* By Duty. */
static constexpr DutyEntry entries[kDuties] = {
	{look_around, nullptr},	  {send_notifications, notify_wanted_at},
	{attach_queues, nullptr}, {keep_token_mark_ahead, nullptr},
	{rotate, nullptr},		  {retain, nullptr},
	{reconcile, nullptr},
};
static constinit DutyState states[kDuties] = {};
static constinit int64 due[kDuties] = {};

static int64
due_at(int i)
{
	int64 at = entries[i].wanted_at != nullptr ? entries[i].wanted_at() : due[i];
	return Max(at, states[i].not_before);
}

static void
run_entry(int i)
{
	states[i].name = duty_names[i];
	states[i].note = &database->duties[i];
	states[i].lock = shared->registry_lock;
	(void) run_duty(&states[i], &due[i], entries[i].run);
}

/* A step of that which has been due for longest. Returns the monotonic time of the next one. */
static int64
run_most_urgent()
{
	int first = 0;
	for (int i = 1; i < kDuties; i++)
		if (due_at(i) < due_at(first))
			first = i;
	if (due_at(first) <= monotonic_now())
		run_entry(first);
	int64 next = INT64_MAX;
	for (int i = 0; i < kDuties; i++)
		next = Min(next, due_at(i));
	return next;
}

/* Who serves comes to every queue between two steps of anything else. */
[[noreturn]] static void
work()
{
	for (;;)
	{
		look_at_clock();
		int64 next = serve_queues();
		next = Min(next, run_most_urgent());
		pgstat_report_stat(false);
		nap((Max(0, next - monotonic_now()) + 999) / 1000);
	}
}

} // namespace pgq

using namespace pgq;

extern "C" {
PGDLLEXPORT void pgq_scheduler_main(Datum);

void
pgq_scheduler_main(Datum arg)
{
	memcpy(&order, MyBgworkerEntry->bgw_extra, sizeof(order));
	on_shmem_exit(say_end, (Datum) 0);
	say(order, SeatState::kRunning);
	pqsignal(SIGQUIT, quit);
	start_worker();
	connect_unnoticed(DatumGetObjectId(arg));
	commit_level = synchronous_commit;
	set_session_options();
	take_role();
	static constexpr Duty at_once[] = {Duty::kPresence, Duty::kQueues};
	for (Duty first : at_once)
		run_entry(static_cast<int>(first));
	assume_pending();
	work();
}
}
