#include "jobs/finish.h"

#include "catalog/queue_lock.h"
#include "catalog/rights.h"
#include "engine/ended_jobs.h"
#include "engine/hold.h"
#include "jobs/late_ack.h"
#include "jobs/lost_attempt.h"
#include "load/attach.h"
#include "pg/virtual_xid.h"
#include "rows/look_up.h"
#include "rows/write.h"
#include "steps/end_row.h"
#include "txn/effects.h"

namespace pgq {

static FoundLease
find_lease_of(const Database *db, int64 job_id)
{
	FoundLease found{};
	if (!find_lease(db, job_id, &found.lease, &found.ref))
		found.lease = nullptr;
	return found;
}

void
note_stale_call(int64 job_id)
{
	QueueRef ref;
	if (find_queue_of_job(tables().database, job_id, &ref))
		count_call(ref, Call::kStale);
}

/* ---- taking a lease ---- */

/*
 * Return whether the caller may ack, fail or extend the job. *queue_id: the queue of the job's
 * lease, on which the right was checked; 0 if there is no lease.
 */
static bool
may_answer(int64 job_id, int32 *queue_id)
{
	FoundLease found = find_lease_of(tables().database, job_id);
	*queue_id = found.lease != nullptr ? found.ref.queue_id : 0;
	return found.lease == nullptr || may(Deed::kAnswer, *queue_id);
}

/* Return whether a worker has the lease with that token. Caller holds the queue's lock. */
static bool
is_handed_out(const Lease *lease, int64 token)
{
	return token_of(lease) == token && lease->state == LeaseState::kClaimed && !lease->doomed;
}

namespace {

enum class Access : uint8
{
	kInHand,
	kStale,
	kOthers, /* another transaction is claiming or ending the job */
};

} // namespace
/*
 * Return whether another transaction decides about the lease first; set *other to that transaction.
 */
static bool
is_in_other_hands(const Lease *lease, VirtualTransactionId *other)
{
	/*
	 * A transaction that uses the lease may end it. One that has claimed the job may roll back,
	 * which undoes the claim.
	 */
	auto is_anothers = [](const VirtualTransactionId &open) {
		return VirtualTransactionIdIsValid(open) && !is_me(open);
	};
	*other = is_anothers(lease->user) ? lease->user : lease->claimer;
	return is_anothers(*other);
}

namespace {
/* What the caller is about to do with the lease. */
enum class Intent : uint8
{
	kAssert, /* keep the lease */
	kEnd,
};

} // namespace
/* Return whether the record of an attempt that ends as `how` says needs the data of its run. */
static bool
wants_run(const QueueOptions &options, LeaseEnd how)
{
	switch (how)
	{
		case LeaseEnd::kAcked:
			return keeps_finished(options) || is_recorded(options, Outcome::kAcked);
		case LeaseEnd::kFailed:
			return is_recorded(options, Outcome::kFailed);
		case LeaseEnd::kReleased:
			return is_recorded(options, Outcome::kReleased);
		default:
			return false;
	}
}

static Access
reach_for(const FoundLease &found, int64 job_id, int64 token, Intent intent, LeaseEnd how,
		  EndingLease *ending, VirtualTransactionId *other)
{
	Access access = Access::kStale;
	reserve_lease_effects(1);
	(void) change_found_lease(found, job_id, [&](QueueHold &hold, Lease *lease) {
		if (!is_handed_out(lease, token))
			return;
		if (is_in_other_hands(lease, other))
		{
			access = Access::kOthers;
			return;
		}
		/* This transaction has already ended the lease, so its token is stale. */
		if (lease->ending)
			return;
		note_ending(hold.ref(), lease, ending);
		if (wants_run(hold->options, how))
			note_run(lease, &ending->run);
		if (intent == Intent::kEnd)
			end_at_commit(ending->ref, lease, how);
		else
			use_to_the_end(ending->ref, lease);
		access = Access::kInHand;
	});
	return access;
}

/*
 * Pin the lease until this transaction ends, if the token is current. Waits for another transaction
 * that uses the lease; the deadlock detector sees that wait. Afterwards the lease is stale, or free
 * again. Returns false if the lease is stale, or if the caller has no right to answer for jobs of
 * its queue.
 */
static bool
take_in_hand(int64 job_id, int64 token, Intent intent, LeaseEnd how, EndingLease *ending)
{
	for (;;)
	{
		VirtualTransactionId other;
		FoundLease found = find_lease_of(tables().database, job_id);
		if (found.lease == nullptr || !may(Deed::kAnswer, found.ref.queue_id))
			return false;
		Access access = reach_for(found, job_id, token, intent, how, ending, &other);
		if (access != Access::kOthers)
			return access == Access::kInHand;
		VirtualXactLock(other, true);
		if (any_prepared())
			resolve_prepared();
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Return whether another transaction ends the lease. When that transaction commits, the row is gone
 * at once and the lease a moment later. In between, that transaction is still the one to count and
 * report the end.
 */
static bool
is_ended_elsewhere(const Lease *lease)
{
	return lease->prepared.ended || (lease->ending && !is_me(lease->user));
}

/*
 * End the lease at once if its job's row was deleted and that delete is committed. A rollback of
 * this transaction does not undo this. Returns whether the row is gone.
 */
static bool
end_if_rowless(int64 job_id, int64 token, const Place &place)
{
	JobRow row;
	SegmentSet segments(AccessShareLock);
	bool gone = verify_job(segments, place, job_id, &row) == Verdict::kDead;
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
	const Finish finish = {&records, ending.run.worker, result};
	if (end_row(segments, ending.ref, ending.place, ack.job_id, RowEnd::kAcked, nullptr, true,
				keeps_finished(ending.options) ? &finish : nullptr) != WriteResult::kDone)
	{
		set_end(ending.lease, LeaseEnd::kUncounted);
		(void) end_if_rowless(ack.job_id, ack.token, ending.place);
		return false;
	}
	record_attempt(records, ending, Outcome::kAcked);
	records.write_if_many();
	return true;
}

AttemptEnd
fail_job(int64 job_id, const Failure &failure)
{
	EndingLease ending;
	bool in_hand = take_in_hand(job_id, failure.fence, Intent::kEnd, LeaseEnd::kFailed, &ending);
	SegmentSet segments(RowExclusiveLock);
	AttemptEnd end = in_hand ? end_failed_attempt(segments, ending, failure, true)
							 : fail_lost(segments, job_id, failure);
	segments.close_unwritten();
	return end;
}

bool
release_job(int64 job_id, int64 token, Datum delay)
{
	EndingLease ending;
	if (!take_in_hand(job_id, token, Intent::kEnd, LeaseEnd::kReleased, &ending))
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

/* Return whether the row exists. Waits for a transaction that is deleting it. */
static bool
has_row(int64 job_id, const Place &place)
{
	JobRow row;
	SegmentSet segments(RowExclusiveLock);
	Verdict verdict = verify_job(segments, place, job_id, &row);
	bool has = verdict == Verdict::kBusy ? keep_job(segments, place, job_id) == WriteResult::kDone
										 : verdict != Verdict::kDead;
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
	bool has = has_row(job_id, held.place);
	if (!has)
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
 * (*current is false), if the lease is revoked, or if its max_runtime is used up.
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
	 * Extend before looking at the row: the look may wait for a lock, and the lease must not expire
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
