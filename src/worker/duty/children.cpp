/*
 * Duty: judge blocked children (dependencies/judge.h) of which the scheduler was told, and delete
 * dependencies and outcomes that no job needs any more (dependencies/garbage.h). A step is one
 * transaction with at most 64 children, or 64 cancels of a chain. So a parent with many children, or
 * a long chain of cancels, takes many steps.
 */
#include "core/ring_policy.h"
#include "dependencies/garbage.h"
#include "dependencies/judge.h"
#include "pg/stop_point.h"
#include "rows/dependency_row.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

#include <algorithm>

namespace pgq {

/* ---- which children ---- */

/* Judge all blocked children with this id or a greater one, besides those that memory was told of. */
static void
want_child_sweep(ChildrenState &state, int64 from)
{
	state.sweep_from = Min(state.sweep_from, from);
	/* A sweep that has not come so far meets these children. */
	if (state.sweeping && state.swept_to < state.sweep_from)
		state.sweep_from = INT64_MAX;
}

/* Begin to judge all blocked children. The ids that are not judged yet are not needed any more. */
static void
begin_child_sweep(ChildrenState &state)
{
	state.taken = {};
	state.next_child = state.next_parent = state.left_n = 0;
	state.sweeping = true;
	state.swept_to = 0;
	state.sweep_from = INT64_MAX;
}

/*
 * Judge the child again after 100 ms. If such children are still left then, the next delays are 200
 * ms, 400 ms ... 1.6 s. If the list has no room for the child, judge all children from this one on.
 */
static void
judge_later(ChildrenState &state, int64 child_id)
{
	static constexpr int64 kFirst = USECS_PER_SEC / 10;
	if (state.later_n == 0)
	{
		state.later_delay = state.later_again ? Min(2 * state.later_delay, 16 * kFirst) : kFirst;
		state.later_at = monotonic_now() + state.later_delay;
	}
	if (state.later_n < kChildrenAtOnce)
		state.later[state.later_n++] = child_id;
	else
		state.later_from = Min(state.later_from, child_id);
}

static bool
is_later_due(const ChildrenState &state)
{
	return state.later_n > 0 && state.later_at <= monotonic_now();
}

static int
take_later(ChildrenState &state, int64 (&ids)[kChildrenAtOnce])
{
	int n = state.later_n;
	std::copy(state.later, state.later + n, ids);
	state.later_n = 0;
	if (state.later_from != INT64_MAX)
		want_child_sweep(state, state.later_from);
	state.later_from = INT64_MAX;
	return n;
}

static int
take_left(ChildrenState &state, int64 (&ids)[kChildrenAtOnce])
{
	int n = state.left_n;
	std::copy(state.left, state.left + n, ids);
	state.left_n = 0;
	return n;
}

/* A child of several parents is judged once, since they were all told of before the snapshot. */
static int
take_children_of_parents(ChildrenState &state, int64 (&ids)[kChildrenAtOnce])
{
	static constexpr int kToldAtOnce = 128;
	int parents = Min(kToldAtOnce, state.taken.parents - state.next_parent);
	int n = children_of(state.taken.parent + state.next_parent, parents, state.parents_to, ids);
	state.parents_to = n > 0 ? ids[n - 1] : 0;
	if (n < kChildrenAtOnce)
	{
		state.next_parent += parents;
		state.parents_to = 0;
	}
	return n;
}

static bool
has_taken(const ChildrenState &state)
{
	return state.next_child < state.taken.children || state.next_parent < state.taken.parents;
}

static int
take_taken(ChildrenState &state, int64 (&ids)[kChildrenAtOnce])
{
	state.swept_last = false;
	if (state.next_child == state.taken.children)
		return take_children_of_parents(state, ids);
	int n = Min(kChildrenAtOnce, state.taken.children - state.next_child);
	std::copy_n(state.taken.child + state.next_child, n, ids);
	state.next_child += n;
	return n;
}

static int
take_swept(ChildrenState &state, int64 (&ids)[kChildrenAtOnce])
{
	int n = blocked_after(state.swept_to, ids);
	state.swept_last = true;
	state.swept_to = n > 0 ? ids[n - 1] : state.swept_to;
	state.sweeping = n == kChildrenAtOnce;
	return n;
}

static bool
has_children_to_judge(const SchedulerState &scheduler)
{
	const ChildrenState &state = scheduler.children;
	return !state.begun || state.failed || state.left_n > 0 || state.sweeping ||
		   state.sweep_from != INT64_MAX || has_taken(state) || is_later_due(state) ||
		   has_told_children(scheduler.database);
}

/*
 * Return the next children to judge. Children of which memory is told while others are judged wait
 * for these, but not for the end of a sweep.
 */
static int
next_children(SchedulerState &scheduler, int64 (&ids)[kChildrenAtOnce])
{
	ChildrenState &state = scheduler.children;
	state.later_again = false;
	if (state.left_n > 0)
		return take_left(state, ids);
	state.later_again = is_later_due(state);
	if (state.later_again)
		return take_later(state, ids);
	if (!has_taken(state))
	{
		take_told_jobs(scheduler.database, &state.taken);
		state.next_child = state.next_parent = 0;
		state.parents_to = 0;
		want_child_sweep(state, state.taken.all ? 0 : state.taken.all_from);
	}
	if (!state.sweeping && state.sweep_from != INT64_MAX)
	{
		state.sweeping = true;
		state.swept_to = state.sweep_from - 1;
		state.sweep_from = INT64_MAX;
	}
	if (has_taken(state) && (state.swept_last || !state.sweeping))
		return take_taken(state, ids);
	return state.sweeping ? take_swept(state, ids) : 0;
}

/* ---- children with an unknown parent ---- */

/* Forget the children for which is_over(child) is true. */
template <typename IsOver>
static void
forget_unknown(ChildrenState &state, IsOver is_over)
{
	auto *end = std::remove_if(state.unknown, state.unknown + state.unknown_n, is_over);
	state.unknown_n = static_cast<int>(end - state.unknown);
}

static constexpr int64 kRowsMayCome = 5 * USECS_PER_MINUTE;
/* After this time the sweep of each minute has settled the child, unless the child is gone. */
static constexpr int64 kForgetUnknown = kRowsMayCome + 3 * USECS_PER_MINUTE;

/*
 * Return whether rows that could tell how the parent has ended are not expected any more: this process has
 * known the child for five minutes, and no rows have come lately. A child that is not remembered for want
 * of room waits until others are settled.
 */
static bool
has_waited_for_rows(ChildrenState &state, const Database *db, int64 child_id)
{
	int64 now = monotonic_now();
	if (is_stop_point("children-do-not-wait"))
		return true;
	forget_unknown(state, [=](const auto &child) { return now - child.since >= kForgetUnknown; });
	for (int i = 0; i < state.unknown_n; i++)
		if (state.unknown[i].child_id == child_id)
			return now - state.unknown[i].since >= kRowsMayCome && !rows_may_come(db);
	if (state.unknown_n < ChildrenState::kUnknownMax)
		state.unknown[state.unknown_n++] = {child_id, now};
	return false;
}

/* Return what to do with the child now. */
static Verdict
verdict_now(ChildrenState &state, const Database *db, const Judged &judged)
{
	if (judged.verdict == Verdict::kUnknown)
		return has_waited_for_rows(state, db, judged.child_id) ? judged.otherwise
															   : Verdict::kUnknown;
	forget_unknown(state, [&](const auto &child) { return child.child_id == judged.child_id; });
	return judged.verdict;
}

/* ---- the step ---- */

namespace {

/* A step of the judgement of children. */
struct ChildrenStep
{
	bool short_of_resources;
	int cancelled_n;
	int64 cancelled[kChildrenAtOnce];

	bool has_cancelled(int64 job_id) const
	{
		const int64 *end = cancelled + cancelled_n;
		return std::find(cancelled, end, job_id) != end;
	}
};

} // namespace

/* Make the child ready, or cancel it. Returns false if the child has to be judged again soon. */
static bool
settle_in_step(ChildrenStep *step, int64 child_id, bool ready)
{
	bool done = false;
	if (step->short_of_resources ||
		!survives([&] { done = settle_child(child_id, ready); }, &step->short_of_resources))
		return false;
	if (done && !ready)
		step->cancelled[step->cancelled_n++] = child_id;
	return done;
}

/* Carry out the verdict. Returns false if the child has to be judged again soon. */
static bool
carry_out(ChildrenState &state, int64 child_id, Verdict verdict, ChildrenStep *step)
{
	if (verdict == Verdict::kUnknown)
		state.unknown_at = monotonic_now() + USECS_PER_MINUTE;
	if (verdict == Verdict::kUnknown || verdict == Verdict::kWaits)
		return true;
	return settle_in_step(step, child_id, verdict == Verdict::kReady);
}

/*
 * Cancel the children of the cancelled children, their children, and so on, as long as the step has
 * cancelled fewer than kChildrenAtOnce jobs. The commit tells of all cancelled jobs that have
 * children, so another step judges the children that are left out here.
 */
static void
cancel_descendants(ChildrenStep *step)
{
	CancelEdge edges[kChildrenAtOnce];
	int room = kChildrenAtOnce - step->cancelled_n;
	if (step->cancelled_n == 0 || room == 0)
		return;
	int n = cancelled_by(step->cancelled, step->cancelled_n, room, edges);
	for (int i = 0; i < n; i++)
		if (step->has_cancelled(edges[i].parent_id) && !step->has_cancelled(edges[i].child_id))
			(void) settle_in_step(step, edges[i].child_id, false);
}

static void
judge_some(SchedulerState &scheduler)
{
	ChildrenState &state = scheduler.children;
	ChildrenStep step{};
	int64 ids[kChildrenAtOnce];
	Judged judged[kChildrenAtOnce];
	int n = next_children(scheduler, ids);
	if (n == 0)
		return;
	std::sort(ids, ids + n);
	int looked = n;
	int found = judge_children(ids, &looked, judged);
	state.left_n = n - looked;
	std::copy_n(ids + looked, state.left_n, state.left);
	stop_point("children-judged");
	for (int i = 0; i < found; i++)
		if (!carry_out(state, judged[i].child_id, verdict_now(state, scheduler.database, judged[i]),
					   &step))
			judge_later(state, judged[i].child_id);
	cancel_descendants(&step);
	if (step.short_of_resources)
		rest_after_this();
}

/*
 * Forget the children of which the scheduler was told. A database that was updated from version 0.1
 * has no children before it gets the columns for them.
 */
static void
forget_told(SchedulerState &scheduler)
{
	ChildrenState &state = scheduler.children;
	take_told_jobs(scheduler.database, &state.taken);
	state.taken = {};
	state.next_child = state.next_parent = state.left_n = state.later_n = 0;
	state.sweeping = false;
	state.sweep_from = INT64_MAX;
}

/*
 * If no job has a child, note that in memory. The lock excludes all open and prepared transactions
 * that have inserted dependencies.
 */
static void
lower_flag(SchedulerState &scheduler)
{
	Oid table = look_at_tables().job_dependency();
	if (OidIsValid(table) && !ConditionalLockRelationOid(table, ShareLock))
		return;
	if (!OidIsValid(table) || !has_dependencies())
		expect_no_children(scheduler.database);
}

/*
 * Judge the next children. After an error in a step it is not known which children were judged;
 * then judge all children.
 */
static bool
judge_step(SchedulerState &scheduler)
{
	ChildrenState &state = scheduler.children;
	bool first = !state.begun;
	if (first)
		begin_watching_children(scheduler.database);
	state.begun = true;
	if (state.failed)
		begin_child_sweep(state);
	state.failed = true;
	bool served = serving_transaction(RowExclusiveLock, [&] {
		if (!OidIsValid(look_at_tables().job_dependency()) || !look_at_tables().has_batches)
			return forget_told(scheduler);
		if (first)
			lower_flag(scheduler);
		read_few_rows();
		keep_plans();
		/* If a crash loses the commit, the children are still blocked, and are judged after the start. */
		commit_lazily();
		judge_some(scheduler);
	});
	state.failed = false;
	return served;
}

/* ---- garbage ---- */

/* Take a step of the collection of garbage. Returns whether another step should follow at once. */
static bool
collect_step(SchedulerState &scheduler)
{
	ChildrenState &state = scheduler.children;
	auto phase = state.phase;
	bool done = false;
	bool served = serving_transaction(RowExclusiveLock, [&] {
		read_few_rows();
		if (phase == ChildrenState::kFlag)
			lower_flag(scheduler);
		else if (!OidIsValid(look_at_tables().job_dependency()))
			return;
		else if (phase == ChildrenState::kDependencies)
			done = survives([&] { (void) delete_dependencies(&state.collected_to); });
		else
			done = survives([&] { delete_outcomes(&state.collected_to); });
	});
	if (served && done && state.collected_to != 0)
		return true;
	state.collected_to = 0;
	state.phase = phase == ChildrenState::kFlag ? ChildrenState::kDependencies
												: static_cast<ChildrenState::Phase>(phase + 1);
	return state.phase != ChildrenState::kDependencies;
}

static void
collect_garbage(SchedulerState &scheduler)
{
	static constexpr int64 kRest = 10 * USECS_PER_SEC; /* between two passes */
	ChildrenState &state = scheduler.children;
	int64 began = monotonic_now();
	bool idle = !may_have_children(scheduler.database) || rows_may_come(scheduler.database);
	bool more = !idle && collect_step(scheduler);
	int64 now = monotonic_now();
	state.collect_at = Max(now + (more ? 0 : kRest), now + rest_after_expiry(now - began, more));
}

/* ---- the duty ---- */

int64
children_wanted_at(const SchedulerState &scheduler)
{
	const ChildrenState &state = scheduler.children;
	if (has_children_to_judge(scheduler))
		return state.not_before;
	int64 next = Min(state.collect_at, state.unknown_at);
	return state.later_n > 0 ? Min(next, state.later_at) : next;
}

int64
settle_children(SchedulerState &scheduler)
{
	ChildrenState &state = scheduler.children;
	int64 now = monotonic_now();
	if (state.unknown_at <= now)
	{
		state.unknown_at = INT64_MAX;
		want_child_sweep(state, 0);
	}
	/* Children to judge may come without end. */
	if (state.collect_at <= now || !has_children_to_judge(scheduler))
		collect_garbage(scheduler);
	else if (judge_step(scheduler))
	{
		/* Other duties that are due run before the next step of this duty. */
		state.delay = 0;
		state.not_before = monotonic_now();
	}
	else
	{
		/* A lock was not free. Try again after 10 ms, 20 ms ... 1 s. */
		state.delay = Max(kHousekeeping / 100, Min(2 * state.delay, kHousekeeping));
		state.not_before = monotonic_now() + state.delay;
	}
	return 0;
}

} // namespace pgq
