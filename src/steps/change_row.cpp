#include "steps/change_row.h"

#include "load/attach.h"
#include "steps/depth.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Return the run_at to store if `run_at` is requested. A future time is moved behind the row's
 * enqueued_at, because a job whose run_at is not later than enqueued_at counts as due since its
 * enqueue. enqueued_at can be in the future if the clock was set back since the enqueue.
 */
TimestampTz
put_off(const JobRow &row, TimestampTz run_at, TimestampTz now)
{
	return run_at <= now ? run_at : Max(run_at, DatumGetTimestampTz(row.value(kJobEnqueuedAt)) + 1);
}

/*
 * Update the counts after the job was written to queue `to`. entered: before the write, the caller
 * took room in `to` for this job, since the row that the caller had read was in another queue. was:
 * the scheduling columns of the row version that the write has replaced. The write may have waited
 * for another transaction, so this version can be newer than the one that the caller had read, and
 * can be in another queue.
 */
static void
note_move(const QueueRef &to, const SchedulingColumns &was, const Hint &now, bool entered)
{
	bool came = was.queue_id != to.queue_id;
	if (came)
		leave_queue(to, was);
	if (came != entered)
		note_rows(to, tables().queue, came ? 1 : -1);
	if (!came)
		note_rewritten(to, was, now, to.queue_id);
	else if (now.delayed)
		note_due(to, tables().queue, now.key.run_at, 1);
}

bool
change_waiting(SegmentSet &segments, const JobRow &row, const JobChange &change, const QueueRef *to)
{
	/*
	 * Steps: take room in the new queue, change the row, file a new hint, and update the counts.
	 * The old hint is dropped when a claim finds that it differs from the row.
	 */
	QueueRef queue;
	bool attached = to != nullptr;
	if (attached)
		queue = *to;
	else
		attached = find_attached_queue(tables().database, row.queue_id(), &queue);
	if (attached)
		reserve_hints(queue, tables().queue, 1);
	bool enters = to != nullptr && to->queue_id != row.queue_id();
	if (enters)
		enter_queue(*to, 1);
	Hint hint;
	SchedulingColumns was;
	bool done =
		change_job(segments, row.place, row.job_id(), change, &hint, &was) == WriteResult::kDone;
	if (done && attached)
		add_hint(queue, hint, false);
	if (!done && enters)
		note_rows(*to, tables().queue, -1);
	else if (done && to != nullptr)
		note_move(*to, was, hint, enters);
	else if (done && attached)
		note_rewritten(queue, was, hint, was.queue_id);
	else if (done)
		note_uncounted_rows();
	return done;
}

} // namespace pgq
