#include "worker/turn.h"

#include "engine/hold.h"
#include "txn/effects.h"

namespace pgq {

/* A timer can be due already while somebody else is reading it in: look again soon. */
static int64
time_to(TimestampTz timer, TimestampTz now)
{
	static constexpr int64 kSoon = 10 * 1000;
	return timer < now || timer - now < kSoon ? kSoon : timer - now;
}

/* When the scheduler has to be back, if nobody calls it before. */
static int64
next_event(const Queue *queue, int64 monotonic, TimestampTz now)
{
	int64 next = next_lease_event(queue);
	int64 timer = queue->schedule.next_timer();
	/* Without NOTIFY a waiter watches the timer and the rate: the scheduler need not. */
	if (queue->options.notify && timer != INT64_MAX)
		next = Min(next, monotonic + time_to(timer, now));
	if (queue->options.notify)
		next = Min(next, earliest_start(*queue));
	return next;
}

/* Timers fire, leases expire, jobs that were set aside come back. */
static Turn
take_turn(const QueueRef &ref)
{
	Turn turn;
	(void) change_queue(ref, [&](QueueHold &hold) {
		Queue *queue = hold.queue();
		Schedule &schedule = hold.schedule();
		int64 monotonic = monotonic_now();
		TimestampTz now = wall_now();
		schedule.fire(now);
		expire_due(queue, monotonic);
		hold.unpark_due(monotonic);
		hold.may_be_ready(static_cast<int>(schedule.take_fired()));

		turn.lost = first_lost(queue) != nullptr;
		if (!turn.lost)
			queue->served_at = monotonic;
		turn.next_event = next_event(queue, monotonic, now);
		turn.failing = queue->failing > 0;
		turn.wants_window = schedule.wants_window_refill();
		turn.wants_timer = schedule.wants_timer_refill();
		turn.wants_count = wants_count(queue->count, now);
		turn.wants_part = wants_part(queue->count, now);
	});
	return turn;
}

/* The state of a queue's duty. A slot that is another queue's now begins anew. */
static DutyState *
state_of(Shift &shift, const QueueRef &ref, int i)
{
	DutyState *state = &shift.queue_duties[(ref.queue - shared->queues) * kQueueDuties + i];
	if (state->name == nullptr || state->ref.generation != ref.generation)
		*state = {.name = queue_duties[i].name, .note = &ref.queue->duties[i], .ref = ref};
	return state;
}

/* Returns when the duty has to be looked at again, if the queue does not ask for it before. */
static int64
run_if_wanted(Shift &shift, const QueueRef &ref, const Turn &turn, int i)
{
	DutyState *state = state_of(shift, ref, i);
	if (!queue_duties[i].wanted(turn, state->noted))
		return INT64_MAX;
	if (state->not_before > monotonic_now())
		return state->not_before;
	return run_duty(state, [&] { return queue_duties[i].run(ref, turn); });
}

int64
serve_queues(Shift &shift)
{
	/* Prepared transactions end unannounced. */
	static constexpr int64 kLookAtPrepared = 100 * 1000;
	if (any_prepared())
		resolve_prepared();
	int64 next = any_prepared() ? monotonic_now() + kLookAtPrepared : INT64_MAX;
	for_each_queue(shift.database, [&](const QueueRef &ref) {
		Turn turn = take_turn(ref);
		next = Min(next, turn.next_event);
		for (int i = 0; i < kQueueDuties; i++)
			next = Min(next, run_if_wanted(shift, ref, turn, i));
	});
	return next;
}

} // namespace pgq
