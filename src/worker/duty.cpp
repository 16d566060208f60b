#include "worker/duty.h"

#include "pg/scope.h"

namespace pgq {

constinit DutyState *current_duty = nullptr;

static void
tell_duty(void *arg)
{
	auto *duty = static_cast<const DutyState *>(arg);
	if (duty->queue != nullptr)
		errcontext("duty \"%s\" of the scheduler, queue \"%s\"", duty->name, duty->queue->name);
	else
		errcontext("duty \"%s\" of the scheduler", duty->name);
}

void
begin_duty(DutyState *duty, ErrorContextCallback *context)
{
	*context = {error_context_stack, tell_duty, duty};
	error_context_stack = context;
	duty->failed = false;
	current_duty = duty;
}

/* Is the note still that of this duty? A queue's slot may be another's by now. */
template <typename Change>
static void
change_note(DutyState *duty, Change change)
{
	with_lwlock(duty->lock, LW_EXCLUSIVE, [&] {
		if (duty->queue == nullptr ||
			is_current({const_cast<Queue *>(duty->queue), duty->generation, duty->queue->queue_id}))
			change(duty->note);
	});
}

void
back_off(DutyState *duty)
{
	static constexpr int kMostDoublings = 6;
	int64 delay = Min(USECS_PER_SEC << Min(duty->failures, kMostDoublings), USECS_PER_MINUTE);
	duty->failures++;
	duty->not_before = monotonic_now() + delay;
}

void
end_duty(DutyState *duty, ErrorContextCallback *context, bool raised, int64 next)
{
	error_context_stack = context->previous;
	current_duty = nullptr;
	if (raised)
		back_off(duty);
	else if (!duty->failed)
		duty->failures = 0;
	int64 monotonic = monotonic_now();
	TimestampTz now = wall_now();
	if (duty->not_before > monotonic)
		next = Max(next == INT64_MAX ? 0 : next, duty->not_before);
	duty->noted = raised || duty->failed;
	change_note(duty, [&](DutyNote *note) {
		note->last_run_at = now;
		note->next_run_at = next == INT64_MAX ? 0 : now + Max(0, next - monotonic);
		if (duty->noted)
			return;
		note->failing_since = 0;
		note->failures = 0;
	});
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
	change_note(duty, [&](DutyNote *note) {
		if (note->failing_since == 0)
			note->failing_since = now;
		note->failures++;
		strlcpy(note->last_error, error->message ? error->message : "", sizeof(note->last_error));
	});
	FreeErrorData(error);
}

void
keep_failing()
{
	current_duty->failed = true;
}

} // namespace pgq
