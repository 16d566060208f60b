#include "jobs/finish.h"

#include "catalog/queue_lock.h"
#include "engine/ended_jobs.h"
#include "engine/hold.h"
#include "jobs/late_ack.h"
#include "jobs/lost_attempt.h"
#include "load/attach.h"
#include "pg/virtual_xid.h"
#include "rows/look_up.h"
#include "rows/write.h"
#include "steps/in_hand.h"
#include "txn/effects.h"

namespace pgq {

void
note_stale_call(int64 job_id)
{
	QueueRef ref;
	if (find_queue_of_job(tables().database, job_id, &ref))
		count_call(ref, Call::kStale);
}

/*
 * Return whether another transaction ends the lease. When that transaction commits, the row is gone
 * at once, and the lease a moment later. In between, only that transaction may count and report the
 * end of the job.
 */
static bool
is_ended_elsewhere(const Lease *lease)
{
	return lease->prepared.ended || (lease->ending && !is_me(lease->user));
}

/*
 * End the lease at once if the row of its job was deleted by a committed transaction. A rollback of
 * the present transaction does not bring the lease back. Returns whether the row is gone.
 */
static bool
end_if_rowless(int64 job_id, int64 token, const Place &place)
{
	JobRow row;
	SegmentSet segments(AccessShareLock);
	bool gone = verify_job(segments, place, job_id, &row) == Visibility::kDead;
	segments.close();
	if (gone)
		(void) change_lease(tables().database, job_id, [&](QueueHold &hold, Lease *lease) {
			if (is_handed_out(lease, token) && !is_ended_elsewhere(lease))
				end_rowless(lease, monotonic_now(), hold);
		});
	return gone;
}

/* ---- the verbs ---- */

void
take_in_hand(Ack *ack)
{
	ack->in_hand =
		take_in_hand(ack->job_id, ack->token, Intent::kEnd, LeaseEnd::kAcked, &ack->ending);
}

Ack *
take_all_in_hand(SegmentSet &segments, const Datum *job_ids, const Datum *tokens, int n)
{
	auto *acks = static_cast<Ack *>(palloc(n * sizeof(Ack)));
	uint32 numbers = 0;
	for (int i = 0; i < n; i++)
	{
		acks[i].job_id = DatumGetInt64(job_ids[i]);
		acks[i].token = DatumGetInt64(tokens[i]);
		take_in_hand(&acks[i]);
		if (acks[i].in_hand)
			numbers |= segment_bit(acks[i].ending.place);
	}
	segments.open_in_order(numbers);
	return acks;
}

bool
ack_job(SegmentSet &segments, Records &records, const Ack &ack, const Datum *result)
{
	const EndingLease &ending = ack.ending;
	if (!ack.in_hand)
		return ack_late(segments, records, ack.job_id, ack.token, result);
	if (!end_attempt_and_row(segments, records, ending, RowEnd::kAcked, Outcome::kAcked, result))
	{
		(void) end_if_rowless(ack.job_id, ack.token, ending.place);
		return false;
	}
	records.write_if_many();
	return true;
}

AttemptEnd
fail_job(int64 job_id, const Failure &failure, Intent intent)
{
	EndingLease ending;
	bool in_hand = take_in_hand(job_id, failure.fence, intent, LeaseEnd::kFailed, &ending);
	SegmentSet segments(RowExclusiveLock);
	AttemptEnd end = in_hand ? end_failed_attempt(segments, ending, failure, true)
							 : fail_lost(segments, job_id, failure);
	segments.close_unwritten();
	return end;
}

bool
release_job(int64 job_id, int64 token, Datum delay, Intent intent)
{
	EndingLease ending;
	if (!take_in_hand(job_id, token, intent, LeaseEnd::kReleased, &ending))
		return false;
	SegmentSet segments(RowExclusiveLock);
	AttemptEnd end = end_released_attempt(segments, ending, token, delay);
	segments.close();
	return end == AttemptEnd::kRetry;
}

/* Lock the queue of the job, so that a session that drops the queue waits for this transaction. */
static void
lock_queue_of(int64 job_id)
{
	int32 queue_id;
	if (may_answer(job_id, &queue_id) && queue_id != 0)
		(void) lock_queue(queue_id, QueueLock::kWriters, RowExclusiveLock, true);
}

/*
 * Return whether the row exists. Waits for a transaction that is deleting the row. *batch_id: the
 * batch of the row.
 */
static bool
has_row(int64 job_id, const Place &place, int64 *batch_id)
{
	JobRow row;
	SegmentSet segments(RowExclusiveLock);
	Visibility visibility = verify_job(segments, place, job_id, &row);
	bool has = visibility == Visibility::kBusy
				   ? keep_job(segments, place, job_id) == WriteResult::kDone
				   : visibility != Visibility::kDead;
	if (has)
		*batch_id =
			visibility == Visibility::kLive ? row.batch() : batch_of_job(segments, place, job_id);
	segments.close();
	return has;
}

bool
assert_lease(int64 job_id, int64 token)
{
	EndingLease held;
	lock_queue_of(job_id);
	if (!take_in_hand(job_id, token, Intent::kAssert, LeaseEnd::kUncounted, &held))
		return false;
	int64 batch_id;
	bool has = has_row(job_id, held.place, &batch_id);
	if (has)
		note_member_in_hand(batch_id);
	else
		(void) end_if_rowless(job_id, token, held.place);
	return has;
}

bool
note_progress(int64 job_id, int64 token, Datum progress)
{
	EndingLease held;
	lock_queue_of(job_id);
	if (!take_in_hand(job_id, token, Intent::kAssert, LeaseEnd::kUncounted, &held))
		return false;
	JobChange change{};
	change.set(kJobProgress, progress);
	Hint hint;
	SegmentSet segments(RowExclusiveLock);
	WriteResult written = change_job(segments, held.place, job_id, change, &hint, nullptr);
	segments.close();
	if (written != WriteResult::kDone)
		(void) end_if_rowless(job_id, token, held.place);
	return written == WriteResult::kDone;
}

/*
 * Extend the lease. Returns the new end of the lease. Returns 0 if the token is not current
 * (*current is false), if the lease is revoked, or if the job's max_runtime is used up.
 */
static TimestampTz
prolong(int64 job_id, int64 token, int64 lease_time, Place *place, bool *current)
{
	TimestampTz end = 0;
	int32 queue_id;
	*current = false;
	if (!may_answer(job_id, &queue_id))
		return 0;
	(void) change_lease(tables().database, job_id, [&](QueueHold &hold, Lease *lease) {
		*current = is_handed_out(lease, token) && hold.ref().queue_id == queue_id;
		if (!*current)
			return;
		if (lease->revoked > 0)
		{
			lease->told = true;
			return;
		}
		if ((lease->ending && is_me(lease->user)) ||
			!extend_deadline(lease, lease_time > 0 ? lease_time : lease->lease_time,
							 monotonic_now(), wall_now()))
			return;
		*place = lease->hint.place;
		end = lease->expires_at;
	});
	return end;
}

TimestampTz
extend_lease(int64 job_id, int64 token, int64 lease_time)
{
	Place place;
	bool current;
	TimestampTz end = prolong(job_id, token, lease_time, &place, &current);
	/*
	 * Extend before the row is read: the read may wait for a lock, and the lease must not expire
	 * during that wait.
	 */
	if (end != 0 && end_if_rowless(job_id, token, place))
	{
		/* SQL has deleted the job, so its worker must stop. */
		current = false;
		end = 0;
	}
	if (!current)
		note_stale_call(job_id);
	return end;
}

} // namespace pgq
