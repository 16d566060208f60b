/*
 * Duty: fire schedules that are due. One transaction enqueues the jobs of a schedule and writes the
 * time of its next tick. So the job of each tick is enqueued exactly once, even after a crash
 * (protocol: tick-is-one-transaction). Between two ticks the duty reads nothing, unless a schedule
 * has changed.
 */
#include "enqueue/enqueue_job.h"
#include "enqueue/enqueuer.h"
#include "pg/stop_point.h"
#include "schedules/cron_schedule.h"
#include "worker/free_queue.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

static constexpr int kMostMissed = 1000;

/*
 * A tick that is late by less than this does not count as missed: the scheduler may have been busy,
 * or restarted.
 */
static constexpr int64 kLate = USECS_PER_MINUTE;

namespace {
/*
 * The plan for a schedule that is due, and the outcome of the plan. Allocated outside of the
 * subtransaction that enqueues the jobs, so that it survives a rollback of the subtransaction.
 */
struct Firing
{
	bool planned;
	Missed missed;
	int64 skipped;	  /* number of missed ticks that enqueue no job; reported in last_error */
	TimestampTz next; /* the first tick after now */
	int64 last_job_id;
	int n;
	TimestampTz ticks[kMostMissed];
	char *error; /* message of the error; nullptr: no error */
	/* memory or disk space is short, or a queue is not counted yet: the tick stays due */
	bool shortage;
};

} // namespace
/*
 * Choose the ticks that enqueue a job now. If ticks were missed, the option `missed` of the
 * schedule decides.
 */
static void
plan(const DueSchedule &due, TimestampTz now, Firing *firing)
{
	Timing timing = timing_of(due.schedule.cron, due.schedule.timezone);
	firing->missed = missed_of(due.missed);
	int most = firing->missed == Missed::kAll ? kMostMissed : 1;
	Backlog backlog = missed_ticks(timing, due.next_run_at, now, firing->ticks, most);
	firing->n = backlog.n;
	if (firing->missed == Missed::kAll)
		firing->skipped = backlog.before;
	if (firing->missed == Missed::kSkip && firing->n > 0 && now - firing->ticks[0] > kLate)
		firing->n = 0;
	firing->next = tick_after(timing, now);
	firing->planned = true;
}

static void
enqueue_ticks(const DueSchedule &due, Firing *firing)
{
	if (firing->n == 0)
		return;
	require_enqueuer(due.maker, due.maker_name, of_schedule);
	require_free_queue(due.schedule.queue, due.maker, due.maker_name);
	/*
	 * There may be many ticks, and jobs with large headers, so free the memory of each job before
	 * the next job.
	 */
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_ext tick", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	for (int i = 0; i < firing->n; i++)
	{
		firing->last_job_id =
			enqueue_job(due.schedule.queue, job_of_tick(due.schedule, firing->ticks[i]));
		MemoryContextReset(scratch);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
}

/*
 * Note the error as the outcome of this schedule. Even if memory or disk space is short, other
 * schedules still run: their jobs may be smaller, or go to another disk.
 */
static void
keep_error(const DueSchedule &due, Firing *firing)
{
	firing->shortage = is_shortage() && geterrcode() != ERRCODE_CONFIGURATION_LIMIT_EXCEEDED;
	if (due.failures == 0)
		EmitErrorReport();
	ErrorData *error = CopyErrorData();
	firing->error = pstrdup(error->message != nullptr ? error->message : "");
	FreeErrorData(error);
}

static const char *
note_of_skipped(const Firing &firing)
{
	if (firing.next == DT_NOEND)
		return "there is no tick in the next 40 years";
	if (firing.skipped == 0)
		return nullptr;
	return psprintf("%s%lld ticks before the last %d were missed, and have no job",
					firing.skipped == kCounted ? "more than " : "",
					static_cast<long long>(firing.skipped), kMostMissed);
}

/*
 * Return the result to write to the schedule's row. After a failure, the missed ticks are tried
 * again after 1 s, 2 s ... 1 min. But if the schedule skips missed ticks (Missed::kSkip), it goes
 * on with its next tick, unless plan() has failed or Firing::shortage is set.
 */
static TickResult
result_of(const DueSchedule &due, const Firing &firing, TimestampTz now)
{
	static constexpr int kMostDoublings = 6;
	TickResult result = {};
	if (firing.error == nullptr)
	{
		result = {firing.next, firing.next, 0, firing.last_job_id, now, note_of_skipped(firing)};
		return result;
	}
	int64 rest =
		Min<int64, int64>(USECS_PER_SEC << Min(due.failures, kMostDoublings), USECS_PER_MINUTE);
	bool moves_on = firing.planned && firing.missed == Missed::kSkip && !firing.shortage;
	result.failures = Min(due.failures, 1000) + 1;
	result.next_run_at = moves_on ? firing.next : due.next_run_at;
	result.due_at = moves_on ? firing.next : now + rest;
	result.error = firing.error;
	return result;
}

/*
 * Fire the schedule that has been due for longest. Returns false if no schedule is due, or if other
 * transactions have locked all schedules that are due.
 */
static bool
fire_one(TimestampTz from, TimestampTz now)
{
	DueSchedule *due = take_due_schedule(from, now);
	if (due == nullptr)
		return false;
	auto *firing = static_cast<Firing *>(palloc0(sizeof(Firing)));
	ErrorContextCallback context = {
		error_context_stack,
		[](void *name) { errcontext("schedule \"%s\"", static_cast<char *>(name)); },
		due->schedule.name};
	error_context_stack = &context;
	(void) survives_alone(
		[&] {
			plan(*due, now, firing);
			enqueue_ticks(*due, firing);
		},
		[&] { keep_error(*due, firing); });
	error_context_stack = context.previous;
	stop_point("tick-enqueued");
	note_tick(*due, result_of(*due, *firing, now));
	return true;
}

int64
schedules_wanted_at(const SchedulerState &scheduler)
{
	const auto &state = scheduler.schedules;
	const SteadyClock &clock = scheduler.database->clock;
	int64 monotonic = monotonic_now();
	TimestampTz wall = wall_now();
	int64 at = monotonic;
	if (state.known && state.changes == value_of(scheduler.database->definition_changes))
		at = state.next == DT_NOEND ? INT64_MAX : monotonic + (state.next - wall);
	if (at != INT64_MAX && !clock.steady(wall, monotonic))
		at = Max(at, clock.trusted_from());
	return Max(at, state.not_before);
}

int64
fire_schedule(SchedulerState &scheduler)
{
	auto &state = scheduler.schedules;
	TimestampTz now = wall_now();
	bool fired = false;
	bool served = false;
	state.not_before = monotonic_now() + kHousekeeping;
	if (!scheduler.database->clock.steady(now, monotonic_now()))
		return INT64_MAX;
	/*
	 * If the transaction fails, `next` stays unknown. Read the change counter before the table. A
	 * schedule that changes after this read then makes the duty read the table again.
	 */
	state.known = false;
	uint32 changes = value_of(scheduler.database->definition_changes);
	/*
	 * Start the search at the time before which no schedule was due at the last search. Index
	 * entries before that time are dead, and there may be many such entries while an old snapshot
	 * keeps VACUUM from removing them. The start is valid as long as no schedule has changed.
	 */
	TimestampTz first = changes == state.first_changes ? state.first : DT_NOBEGIN;
	(void) serving_transaction(RowExclusiveLock, [&] {
		served = ConditionalLockRelationOid(look_at_tables().timetable(), RowExclusiveLock);
		if (!served)
			return;
		read_few_rows();
		fired = fire_one(first, now);
		first = state.next = next_due_schedule(first);
		/*
		 * If other transactions have locked all schedules that are due, look again soon: no signal
		 * says when those transactions release the locks.
		 */
		if (!fired && state.next <= now)
			state.next = Min(next_due_schedule(now + 1), now + kHousekeeping);
	});
	/*
	 * Keep the start for the next search only with the value of the change counter: a schedule that
	 * is made or changed later may be due at any time.
	 */
	if (served && first != DT_NOEND)
	{
		state.first = first;
		state.first_changes = changes;
	}
	state.known = served;
	state.changes = changes;
	if (served)
		state.not_before = monotonic_now();
	/* The return value is only for the view: schedules_wanted_at() decides when the duty runs. */
	return state.next == DT_NOEND ? INT64_MAX
								  : monotonic_now() + Max<int64, int64>(0, state.next - now);
}

} // namespace pgq
