#include "worker/batch_look.h"

#include "catalog/queue_lock.h"
#include "enqueue/enqueue_job.h"
#include "enqueue/enqueuer.h"
#include "jobs/cancel_now.h"
#include "pg/clock.h"
#include "pg/stop_point.h"
#include "pg/survive.h"
#include "rows/member.h"
#include "worker/free_queue.h"

namespace pgq {

static int64
find_member(int64 batch_id)
{
	SegmentSet segments(AccessShareLock);
	int64 member = find_live_member(segments, batch_id);
	segments.close();
	return member;
}

static void
enqueue_callback(const BatchState &batch, BatchEvent event)
{
	char *queue;
	JobSpec spec = job_of_event(batch.callbacks[event], batch.batch_id, event, &queue);
	require_enqueuer(batch.maker, batch.maker_name, of_batch);
	require_free_queue(queue, batch.maker, batch.maker_name);
	(void) enqueue_job(queue, spec);
}

/* Enqueue the callback. If that fails, return false, and set *error to the message. */
static bool
try_callback(const BatchState &batch, BatchEvent event, char **error)
{
	return batch.callbacks[event] == nullptr ||
		   survives_alone([&] { enqueue_callback(batch, event); },
						  [&] {
							  if (batch.failures == 0)
								  EmitErrorReport();
							  ErrorData *data = CopyErrorData();
							  *error = pstrdup(data->message != nullptr ? data->message : "");
							  FreeErrorData(data);
						  });
}

/* Return whether the row has to be written: a sweep looks at many batches for which nothing has changed. */
static bool
differs(const BatchState &was, const BatchState &is)
{
	for (BatchEvent event : batch_events)
		if (was.marks.done[event] != is.marks.done[event])
			return true;
	return was.pending != is.pending || was.due_at != is.due_at || was.failures != is.failures;
}

/*
 * Enqueue the callbacks that are due, and write the row if it has changed. A callback that is refused is
 * tried again. Return whether the row was written.
 */
static bool
fire(BatchState *batch, const MemberSight &seen)
{
	const BatchState was = *batch;
	const BatchMarks &before = was.marks;
	char *error = nullptr;
	for (BatchEvent event : batch_events)
		if (is_due(before, seen, event))
			batch->marks.done[event] = try_callback(*batch, event, &error);
	batch->pending = is_pending(batch->marks, seen);
	TimestampTz now = wall_now();
	if (error == nullptr)
	{
		batch->failures = 0;
		batch->due_at = DT_NOEND;
	}
	else if (batch->failures == 0 || batch->due_at <= now)
	{
		batch->due_at = now + rest_after_failures(batch->failures);
		batch->failures = Min(batch->failures, 1000) + 1;
	}
	if (!differs(was, *batch))
		return false;
	write_batch(*batch, before, error);
	return true;
}

static LookResult
end_of_look(const BatchState &batch, int64 member, bool has_fired)
{
	LookResult result{.end = LookEnd::kNothing, .witness = member, .has_fired = has_fired};
	if (batch.pending && !batch.marks.closed)
		result.end = LookEnd::kChange;
	else if (batch.pending && member != 0)
		result.end = batch.marks.cancelled ? LookEnd::kMembers : LookEnd::kWitness;
	return result;
}

/*
 * Look at a batch for which a callback may be due. Lock its row first, and then take the snapshot: so the
 * snapshot sees all that was committed with the marks in the row. If the batch is closed, no member can be
 * added from the time on at which the tag is locked.
 */
static LookResult
look_with_locks(int64 batch_id)
{
	BatchState batch;
	int64 in_progress = 0;
	int64 member = 0;
	RowSeen row = lock_batch_row(batch_id, &batch);
	if (row == RowSeen::kLocked)
		return {.end = LookEnd::kLock};
	if (row == RowSeen::kGone || !batch.pending)
		return {.end = LookEnd::kNothing};
	bool closed = batch.marks.closed;
	bool was_finished = batch.marks.done[kFinish];
	if (closed)
	{
		if (!lock_batch(batch_id, ExclusiveLock, false))
			return {.end = LookEnd::kLock};
		/* The first look. */
		in_progress = find_member(batch_id);
		stop_point("batch-looked-once");
	}
	/* The second look. */
	MemberSight seen = look_at_members(batch_id, &member);
	seen.live |= in_progress != 0;
	bool has_fired = fire(&batch, seen);
	stop_point("batch-fired");
	/*
	 * If the batch finishes, keep the tag until the commit is visible: a session that adds a member must see
	 * that the batch has finished. Otherwise release the tag, so that such a session need not wait.
	 */
	if (closed && (was_finished || !batch.marks.done[kFinish]))
		unlock_batch(batch_id, ExclusiveLock);
	return end_of_look(batch, Max(member, in_progress), has_fired);
}

/*
 * End the members of a cancelled batch that no other transaction uses. The next pass tries again to end
 * members that were skipped.
 */
static void
end_members(int64 batch_id, int64 *cancelled_to)
{
	static constexpr int kMost = 64;
	int64 ids[kMost];
	int n = find_members(batch_id, *cancelled_to, ids, kMost);
	*cancelled_to = n == kMost ? ids[n - 1] : 0;
	for (int i = 0; i < n; i++)
		(void) survives_alone([&] { (void) cancel_job_now(ids[i]); }, [] {});
}

/*
 * Return whether a restored batch can be looked at. Its members may come later than its row. So the first
 * call only writes the time of the next look to the row.
 */
static bool
accept_restored(const BatchState &batch)
{
	static constexpr int64 kWait = 5 * USECS_PER_MINUTE;
	TimestampTz now = wall_now();
	bool is_new = batch.due_at == DT_NOEND;
	bool accepted = !is_new && (batch.due_at <= now || batch.due_at > now + kLatestDue);
	if (is_new || accepted)
		write_restored(batch.batch_id, accepted ? DT_NOEND : now + kWait);
	return accepted;
}

LookResult
look_at_batch(int64 batch_id, int64 *cancelled_to)
{
	BatchState batch;
	bool died;
	if (!read_batch(batch_id, &batch, &died) || !batch.pending)
		return {.end = LookEnd::kNothing};
	if (batch.restored && !accept_restored(batch))
		return {.end = LookEnd::kNothing, .has_fired = batch.due_at == DT_NOEND};
	/* This first look takes no lock. If a member lives, no callback is due except on_failure. */
	int64 member = batch.marks.closed ? find_member(batch_id) : 0;
	bool fails = died && !batch.marks.done[kFailure];
	if (batch.marks.cancelled && member != 0)
		end_members(batch_id, cancelled_to);
	if (!fails && !batch.marks.closed)
		return {.end = LookEnd::kChange};
	if (!fails && member != 0)
		return {.end = batch.marks.cancelled ? LookEnd::kMembers : LookEnd::kWitness,
				.witness = member};
	return look_with_locks(batch_id);
}

} // namespace pgq
