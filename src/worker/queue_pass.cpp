#include "worker/queue_pass.h"

#include "engine/handler_slot.h"
#include "engine/hold.h"
#include "engine/lease_expiry.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Return the microseconds until the next scheduled job is due, but at least kSoon: the job can be
 * due already while another process is still refilling the timer. timer: run_at of the job.
 */
static int64
time_to(TimestampTz timer, TimestampTz now)
{
	static constexpr int64 kSoon = 10 * 1000;
	return timer < now || timer - now < kSoon ? kSoon : timer - now;
}

/*
 * Return the monotonic time of the next pass over the queue, if no other process wakes the
 * scheduler before.
 */
static int64
next_event(const Queue *queue, int64 monotonic, TimestampTz now)
{
	int64 next = next_lease_event(queue);
	int64 timer = queue->schedule.next_timer();
	/*
	 * In a queue without the option notify, the watcher wakes when the next scheduled job is due or
	 * the rate limit allows the next job, so the scheduler need not wake.
	 */
	if (queue->options.notify && timer != INT64_MAX)
		next = Min(next, monotonic + time_to(timer, now));
	if (queue->options.notify)
		next = Min(next, earliest_start(*queue));
	return next;
}

/* Find out whether the handler of the queue needs one more worker, now or later. */
static void
look_at_handler(QueueHold &hold, int64 monotonic, QueuePass *pass)
{
	QueueHandler &handler = hold->handler;
	if (handler.setup.state != HandlerSetup::kActive)
		return;
	bool claimable = hold->waiting == 0 && hold.is_claimable();
	int64 at = handler.start_at(claimable, monotonic);
	pass->wants_worker = at <= monotonic;
	if (!claimable)
		handler.wants_slot = false;
	if (!pass->wants_worker)
		pass->next_event = Min(pass->next_event, at);
	/*
	 * If no claim waits for jobs of the queue, no process watches its timer and its rate limit. So
	 * the scheduler watches them.
	 */
	if (hold->waiting == 0 && handler.has_free_place())
	{
		TimestampTz timer = hold.schedule().next_timer();
		if (timer != INT64_MAX)
			pass->next_event = Min(pass->next_event, monotonic + time_to(timer, wall_now()));
		pass->next_event = Min(pass->next_event, earliest_start(*hold.queue()));
	}
}

/*
 * Make due jobs ready, end leases whose time is over, and file the jobs again that were set aside
 * and are to be tried again now. Return the work that the queue needs.
 */
static QueuePass
take_turn(const QueueRef &ref)
{
	QueuePass pass;
	(void) change_queue(ref, [&](QueueHold &hold) {
		Queue *queue = hold.queue();
		Schedule &schedule = hold.schedule();
		int64 monotonic = monotonic_now();
		TimestampTz now = wall_now();
		schedule.fire(now);
		hold.may_be_ready(expire_due(queue, monotonic));
		hold.unpark_due(monotonic);
		hold.may_be_ready(static_cast<int>(schedule.take_fired()));

		pass.lost = first_lost(queue) != nullptr;
		if (!pass.lost)
			queue->served_at = monotonic;
		pass.next_event = next_event(queue, monotonic, now);
		pass.failing = queue->failing > 0;
		pass.wants_window = schedule.wants_window_refill();
		pass.wants_timer = schedule.wants_timer_refill();
		pass.wants_count = wants_count(queue->count, now);
		pass.wants_part = wants_part(queue->count, now);
		look_at_handler(hold, monotonic, &pass);
	});
	return pass;
}

/*
 * Return the state of the queue's duty number i. If the slot belongs to another queue by now, reset
 * the state.
 */
static DutyState *
state_of(SchedulerState &scheduler, const QueueRef &ref, int i)
{
	DutyState *state = &scheduler.queue_duties[(ref.queue - shared->queues) * kQueueDuties + i];
	if (state->name == nullptr || state->ref.generation != ref.generation)
		*state = {.name = queue_duties[i].name, .note = &ref.queue->duties[i], .ref = ref};
	return state;
}

/*
 * Run the queue's duty number i if the duty has work. Return the monotonic time of the duty's next
 * run, or INT64_MAX if no time is known for it: the duty then runs as soon as it has work again.
 */
static int64
run_if_wanted(SchedulerState &scheduler, const QueueRef &ref, const QueuePass &pass, int i)
{
	DutyState *state = state_of(scheduler, ref, i);
	if (!queue_duties[i].wanted(pass, state->noted))
		return INT64_MAX;
	if (state->not_before > monotonic_now())
		return state->not_before;
	return run_duty(state, [&] { return queue_duties[i].run(ref, pass); });
}

int64
serve_queues(SchedulerState &scheduler)
{
	int64 began = monotonic_now();
	/*
	 * The end of a prepared transaction wakes no process, so look for ended prepared transactions
	 * at this interval (microseconds).
	 */
	static constexpr int64 kLookAtPrepared = 100 * 1000;
	if (any_prepared())
		resolve_prepared();
	int64 next = any_prepared() ? monotonic_now() + kLookAtPrepared : INT64_MAX;
	for_each_queue(scheduler.database, [&](const QueueRef &ref) {
		QueuePass pass = take_turn(ref);
		next = Min(next, pass.next_event);
		for (int i = 0; i < kQueueDuties; i++)
			next = Min(next, run_if_wanted(scheduler, ref, pass, i));
	});
	drop_old_tickets(began);
	return next;
}

} // namespace pgq
