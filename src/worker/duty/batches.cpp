/*
 * Duty: look at the batches that are noted in memory (engine/batch_watch.h), and enqueue the
 * callbacks that are due (worker/batch_look.h). A step is one transaction. If the transaction does
 * not commit, no callback was enqueued, and the batches are looked at again.
 */
#include "batches/look.h"
#include "catalog/owner_sql.h"
#include "engine/batch_watch.h"
#include "worker/batch_look.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

/*
 * A step ends after this time (microseconds), or when it has written this many rows of batches,
 * since other sessions wait for these rows.
 */
static constexpr int64 kStepTime = USECS_PER_SEC / 20;
static constexpr int kFiredMost = 8;

/* Pause after a lock was not free: 10 ms, 20 ms ... 1 s. */
static constexpr int64 kFirstPause = USECS_PER_SEC / 100;
static constexpr int64 kLongestPause = USECS_PER_SEC;

/* ---- looks at certain times ---- */

static BatchesState::Later *
find_later(BatchesState &state, int64 batch_id)
{
	for (BatchesState::Later &later : state.later)
		if (later.batch_id == batch_id)
			return &later;
	return nullptr;
}

/* Look at all batches at that time. Called if the list has no room for a batch. */
static void
sweep_later(BatchesState &state, int64 at)
{
	state.sweep_at = Min(state.sweep_at, at);
}

/*
 * Look at the batch again after `delay`. If the batch is in the list already, double its last
 * delay.
 */
static void
look_later(BatchesState &state, int64 batch_id, int64 delay, int64 longest)
{
	BatchesState::Later *later = find_later(state, batch_id);
	if (later == nullptr)
		later = find_later(state, 0);
	int64 now = monotonic_now();
	if (later == nullptr)
		return sweep_later(state, now + kLongestPause);
	later->delay = later->batch_id == batch_id ? Min(2 * later->delay, longest) : delay;
	later->batch_id = batch_id;
	later->at = now + later->delay;
}

static void
forget_later(BatchesState &state, int64 batch_id)
{
	if (BatchesState::Later *later = find_later(state, batch_id); later != nullptr)
		*later = {};
}

/* ---- one look ---- */

static void
keep_message(MemoryContext caller, char **message)
{
	MemoryContext previous = MemoryContextSwitchTo(caller);
	ErrorData *error = CopyErrorData();
	*message = pstrdup(error->message != nullptr ? error->message : "");
	FreeErrorData(error);
	MemoryContextSwitchTo(previous);
}

/*
 * Look at the batch. If the look fails, name the error in the row, and try again after a minute. If even
 * that fails, the next sweep finds the batch.
 */
static void
look_at(BatchesState &state, int64 batch_id)
{
	MemoryContext caller = CurrentMemoryContext;
	BatchesState::Look &look = state.looks[state.n - 1];
	char *message = nullptr;
	look = {.batch_id = batch_id};
	BatchesState::Later *later = find_later(state, batch_id);
	int64 cancelled_to = later != nullptr ? later->cancelled_to : 0;
	bool looked = survives_alone([&] { look.result = look_at_batch(batch_id, &cancelled_to); },
								 [&] {
									 keep_message(caller, &message);
									 note_duty_error(caller);
								 });
	if (later != nullptr)
		later->cancelled_to = cancelled_to;
	if (looked)
		return;
	keep_failing();
	look.result.has_fired = true;
	if (!survives([&] { write_look_error(batch_id, message); }))
		sweep_later(state, monotonic_now() + USECS_PER_MINUTE);
}

namespace {

/* The looks of one step. */
struct Step
{
	BatchesState &state;
	int64 began;
	int fired = 0;

	bool is_over() const
	{
		return state.n == kLooksAtOnce || fired == kFiredMost ||
			   monotonic_now() - began > kStepTime;
	}
	/* Look at the batch, which is LOOKING in memory. */
	void look(int64 batch_id)
	{
		state.looks[state.n++].batch_id = batch_id;
		look_at(state, batch_id);
		fired += state.looks[state.n - 1].result.has_fired;
		CHECK_FOR_INTERRUPTS();
	}
	/* Look at a batch of which memory was not told. */
	void begin(int64 batch_id)
	{
		begin_look(MyDatabaseId, batch_id);
		look(batch_id);
	}
};

} // namespace

/* ---- which batches ---- */

/* Look at batches of which memory was told. Leave room in the step for looks of other kinds. */
static void
look_at_told(Step &step)
{
	static constexpr int kMost = kLooksAtOnce * 3 / 4;
	int most = Min(kMost, count_told_batches(MyDatabaseId));
	int64 batch_id;
	for (int i = 0; i < most && !step.is_over() && next_told_batch(MyDatabaseId, &batch_id); i++)
		step.look(batch_id);
}

static void
look_at_put_off(Step &step)
{
	for (const BatchesState::Later &later : step.state.later)
		if (later.batch_id != 0 && later.at <= step.began && !step.is_over())
			step.begin(later.batch_id);
}

static void
look_at_due(Step &step)
{
	int64 ids[kFiredMost];
	BatchesState &state = step.state;
	int fired = step.fired;
	if (step.is_over() || (state.due_known && state.due > wall_now()))
		return;
	int n = find_due_batches(&state.due_to, wall_now(), ids, kFiredMost);
	for (int i = 0; i < n && !step.is_over(); i++)
		step.begin(ids[i]);
	state.due = next_due_batch();
	state.due_known = true;
	/*
	 * If no row was written although batches were due, a lock was not free: wait before the next
	 * try.
	 */
	if (n > 0 && step.fired == fired)
		state.due = Max(state.due, wall_now() + kLongestPause);
}

/*
 * Go on with the sweep. If memory notes during a sweep that all batches are to be looked at,
 * another sweep begins when this one has ended.
 */
static void
sweep_on(Step &step)
{
	BatchesState &state = step.state;
	if (!state.sweeping && (take_all_told(MyDatabaseId) || state.sweep_at <= step.began))
	{
		state.sweeping = true;
		state.swept_to = PG_INT64_MIN;
		state.sweep_at = INT64_MAX;
	}
	if (!state.sweeping || step.is_over())
		return;
	int64 ids[kLooksAtOnce];
	int n = find_pending_batches(state.swept_to, ids, kLooksAtOnce);
	int i = 0;
	for (; i < n && !step.is_over(); i++)
	{
		step.begin(ids[i]);
		state.swept_to = ids[i];
	}
	state.sweeping = i < n || n == kLooksAtOnce;
}

/* ---- a step ---- */

/* Tell memory what the batch waits for. Called after the commit of the step. */
static void
end_look(BatchesState &state, const BatchesState::Look &look)
{
	int64 id = look.batch_id;
	switch (look.result.end)
	{
		case LookEnd::kNothing:
			forget_later(state, id);
			return forget_batch(MyDatabaseId, id);
		case LookEnd::kWitness:
			forget_later(state, id);
			return await_witness(MyDatabaseId, id, look.result.witness);
		case LookEnd::kChange:
			forget_later(state, id);
			return await_change(MyDatabaseId, id);
		case LookEnd::kLock:
			/* The batch stays LOOKING, so it is looked at again in any case. */
			return look_later(state, id, kFirstPause, kLongestPause);
		case LookEnd::kMembers:
			look_later(state, id, kLongestPause, kLongestPause);
			return await_witness(MyDatabaseId, id, look.result.witness);
	}
}

/* Put back the batches at which the last step was looking when it raised an error. */
static void
put_back_looks(BatchesState &state)
{
	if (state.n == 0)
		return;
	for (int i = 0; i < state.n; i++)
		put_back_batch(MyDatabaseId, state.looks[i].batch_id);
	state.n = 0;
	state.due_known = false;
	sweep_later(state, monotonic_now());
}

static bool
lock_batch_tables(const Tables &t)
{
	return ConditionalLockRelationOid(t.job_batch(), RowExclusiveLock) &&
		   ConditionalLockRelationOid(t.batch_note(), RowExclusiveLock);
}

int64
settle_batches(SchedulerState &scheduler)
{
	BatchesState &state = scheduler.batches;
	bool served = false;
	bool exists = true;
	if (!state.begun)
		begin_watching_batches(MyDatabaseId);
	state.begun = true;
	put_back_looks(state);
	int64 now = monotonic_now();
	state.not_before = now + kHousekeeping;
	(void) serving_transaction(RowExclusiveLock, [&] {
		const Tables &t = look_at_tables();
		exists = OidIsValid(t.job_batch()) && OidIsValid(t.batch_note()) && t.has_batches;
		served = exists && lock_batch_tables(t);
		if (!served)
			return;
		read_few_rows();
		keep_plans();
		/*
		 * A crash may lose this commit: then the callbacks and the marks in the rows are lost
		 * together.
		 */
		commit_lazily();
		Step step{state, now};
		look_at_told(step);
		look_at_put_off(step);
		look_at_due(step);
		sweep_on(step);
		if (step.fired > 0)
			state.due = Min(state.due, next_due_batch());
	});
	for (int i = 0; i < state.n; i++)
		end_look(state, state.looks[i]);
	state.n = 0;
	if (served)
		state.not_before = monotonic_now();
	else if (!exists)
		state.not_before = now + USECS_PER_MINUTE;
	return INT64_MAX;
}

int64
batches_wanted_at(const SchedulerState &scheduler)
{
	const auto &state = scheduler.batches;
	int64 now = monotonic_now();
	int64 at = state.sweep_at;
	if (!state.begun || state.n > 0 || !state.due_known || state.sweeping ||
		has_told_batches(MyDatabaseId))
		at = 0;
	for (const auto &later : state.later)
		if (later.batch_id != 0)
			at = Min(at, later.at);
	/*
	 * If the clock was set back, the due_at of a row may be far in the future, so wait at most a
	 * minute.
	 */
	if (state.due_known && state.due != DT_NOEND)
		at = Min(at, now + Min<int64, int64>(state.due - wall_now(), USECS_PER_MINUTE));
	return Max(at, state.not_before);
}

} // namespace pgq
