#include "steps/depth.h"

#include "engine/copies.h"
#include "load/attach.h"
#include "load/count.h"
#include "txn/effects.h"

namespace pgq {

static constexpr int kFullQueue = MAKE_SQLSTATE('P', 'Q', '0', '0', '2');

[[noreturn]] static void
complain_full(const QueueRef &ref, int64 jobs, const Fullness &fullness)
{
	char name[kQueueNameMax + 1] = "";
	(void) copy_name(ref, name);
	count_call(ref, Call::kRejected);
	ereport(
		ERROR,
		(errcode(kFullQueue), errmsg("queue \"%s\" is full", name),
		 errdetail("The queue has %lld jobs, max_depth is %lld, and this call needs room for %lld.",
				   static_cast<long long>(fullness.depth),
				   static_cast<long long>(fullness.max_depth), static_cast<long long>(jobs)),
		 errhint("Try again when more jobs of the queue have ended, or raise max_depth with "
				 "pgq_alter_queue.")));
}

/*
 * Take room for all jobs, or for none. Returns false if there is too little room. resolved: prepared
 * transactions that have ended no longer take room; the function sets it.
 */
static bool
has_entered(const QueueRef &ref, int64 jobs, bool *resolved, Fullness *fullness)
{
	for (;;)
	{
		switch (take_room(ref, look_at_tables().queue, jobs, fullness))
		{
			case DepthAnswer::kTaken:
				return true;
			case DepthAnswer::kUncounted:
				count_jobs(ref);
				break;
			case DepthAnswer::kFull:
				/*
				 * A prepared transaction that has ended may have left room: apply its outcome, and
				 * try once more.
				 */
				if (*resolved || !any_prepared())
					return false;
				resolve_prepared();
				*resolved = true;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

void
enter_queue(const QueueRef &ref, int64 jobs)
{
	Fullness fullness;
	bool resolved = false;
	if (!has_entered(ref, jobs, &resolved, &fullness))
		complain_full(ref, jobs, fullness);
}

/* Each try asks for fewer jobs than the one before, since other transactions may take room, too. */
int64
enter_queue_or_skip(const QueueRef &ref, int64 jobs)
{
	Fullness fullness;
	bool resolved = false;
	int64 fit = jobs;
	while (fit > 0 && !has_entered(ref, fit, &resolved, &fullness))
		fit = Max(INT64CONST(0), Min(fit - 1, fullness.room));
	if (fit < jobs)
		count_skipped(ref, jobs - fit);
	return fit;
}

bool
enter_queue_alone(const QueueRef &ref, Room room)
{
	if (room == Room::kTakeOrSkip)
		return enter_queue_or_skip(ref, 1) > 0;
	if (room == Room::kTake)
		enter_queue(ref, 1);
	return true;
}

/*
 * Find the slot that counts the rows of queue `queue_id`. Returns false if the queue has no slot.
 * In that case the queue may get a slot, and count its rows, before this transaction commits; so at
 * commit the counts of all queues are forgotten, and their rows are counted again.
 */
static bool
find_counting(const QueueRef &ref, int32 queue_id, QueueRef *own)
{
	*own = ref;
	if (queue_id == ref.queue_id || find_attached_queue(look_at_tables().database, queue_id, own))
		return true;
	note_uncounted_rows();
	return false;
}

static void
note_waiting(const QueueRef &ref, bool delayed, TimestampTz run_at, int64 n)
{
	if (delayed)
		note_due(ref, look_at_tables().queue, run_at, n);
}

void
leave_queue(const QueueRef &ref, const SchedulingColumns &was)
{
	QueueRef own;
	if (!find_counting(ref, was.queue_id, &own))
		return;
	note_rows(own, look_at_tables().queue, -1);
	note_waiting(own, was.delayed, was.run_at, -1);
}

void
note_rewritten(const QueueRef &ref, const SchedulingColumns &was, const Hint &now, int32 queue_id)
{
	QueueRef own;
	if (was.queue_id == queue_id && was.delayed == now.delayed && was.run_at == now.key.run_at)
		return;
	if (find_counting(ref, was.queue_id, &own))
		note_waiting(own, was.delayed, was.run_at, -1);
	if (find_counting(ref, queue_id, &own))
		note_waiting(own, now.delayed, now.key.run_at, 1);
}

void
note_dead_letter_of(const QueueRef &ref, int32 queue_id, int64 n)
{
	QueueRef own;
	if (find_counting(ref, queue_id, &own))
		note_dead_letters(own, look_at_tables().queue, n);
}

} // namespace pgq
