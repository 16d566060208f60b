#include "worker/runner.h"

#include "engine/hold.h"
#include "pg/clip.h"

namespace pgq {

static constinit DutyState *current_duty = nullptr;

static bool
is_of_queue(const DutyState *duty)
{
	return duty->ref.queue != nullptr;
}

static void
tell_duty(void *arg)
{
	auto *duty = static_cast<const DutyState *>(arg);
	if (is_of_queue(duty))
		errcontext("duty \"%s\" of the scheduler, queue \"%s\"", duty->name, duty->ref.queue->name);
	else
		errcontext("duty \"%s\" of the scheduler", duty->name);
}

/*
 * Change the duty's note, which the view pgq_ext.duty shows. The note of a queue's duty is in the
 * queue's slot. If the slot has been reused, the note belongs to another queue, and change_queue()
 * does nothing.
 */
template <typename Change>
static void
change_note(const DutyState *duty, Change change)
{
	if (is_of_queue(duty))
		(void) change_queue(duty->ref, [&](QueueHold &) { change(duty->note); });
	else
		with_lwlock(shared->registry_lock, LW_EXCLUSIVE, [&] { change(duty->note); });
}

static void
rest(DutyState *duty)
{
	static constexpr int kMostDoublings = 6;
	int64 delay = Min(USECS_PER_SEC << Min(duty->failures, kMostDoublings), USECS_PER_MINUTE);
	duty->failures++;
	duty->not_before = monotonic_now() + delay;
}

void
rest_after_this()
{
	rest(current_duty);
}

void
keep_failing()
{
	current_duty->failing = true;
}

void
begin_duty(DutyState *duty, ErrorContextCallback *context)
{
	*context = {error_context_stack, tell_duty, duty};
	error_context_stack = context;
	duty->failing = false;
	current_duty = duty;
}

int64
end_duty(DutyState *duty, ErrorContextCallback *context, bool raised, int64 next)
{
	error_context_stack = context->previous;
	current_duty = nullptr;
	if (raised)
		rest(duty);
	else if (!duty->failing)
		duty->failures = 0;
	int64 monotonic = monotonic_now();
	TimestampTz now = wall_now();
	if (duty->not_before > monotonic)
		next = Max(next == INT64_MAX ? 0 : next, duty->not_before);
	duty->noted = raised || duty->failing;
	change_note(duty, [&](DutyStatus *note) {
		note->last_run_at = now;
		note->next_run_at = next == INT64_MAX ? 0 : now + Max(0, next - monotonic);
		if (duty->noted)
			return;
		note->failing_since = 0;
		note->failures = 0;
	});
	return next;
}

void
note_duty_error(MemoryContext context)
{
	static constexpr int64 kQuiet = USECS_PER_MINUTE;
	DutyState *duty = current_duty;
	int64 monotonic = monotonic_now();
	TimestampTz now = wall_now();
	MemoryContextSwitchTo(context);
	ErrorData *error = CopyErrorData();
	if (duty->told == 0 || monotonic - duty->told >= kQuiet)
	{
		EmitErrorReport();
		duty->told = monotonic;
	}
	change_note(duty, [&](DutyStatus *note) {
		if (note->failing_since == 0)
			note->failing_since = now;
		note->failures++;
		copy_clipped(note->last_error, error->message ? error->message : "");
	});
	FreeErrorData(error);
}

} // namespace pgq
