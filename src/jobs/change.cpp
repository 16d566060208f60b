#include "jobs/change.h"

#include "catalog/rights.h"
#include "catalog/subscription.h"
#include "catalog/values.h"
#include "engine/hold.h"
#include "engine/token.h"
#include "jobs/dead_letter.h"
#include "load/attach.h"
#include "pg/stop_point.h"
#include "steps/change_row.h"
#include "steps/end_row.h"
#include "steps/in_hand.h"
#include "txn/effects.h"

namespace pgq {

/* ---- waiting jobs ---- */

/*
 * Close the segments. If the call has changed or ended the job, keep the locks of the segments
 * until the transaction ends. This also holds for a call that has written no row, such as a retry
 * of a job that is due already.
 */
static void
close_after(SegmentSet &segments, bool done)
{
	if (done)
		segments.close();
	else
		segments.close_unwritten();
}

static void
lock_if_fleeting(SegmentSet &segments, const TakenLease &taken, const JobRow &row)
{
	if (taken.fleeting)
		(void) keep_job(segments, row.place, row.job_id());
}

/* ---- cancel and finish ---- */

namespace {
/* A verb that ends jobs by their ids, whether a worker has them or not. */
struct EndById
{
	LeaseEnd lease; /* how the lease ends: of a worker, or the one that is taken of a waiting job */
	RowEnd row;
	Outcome outcome; /* of the attempt of a worker */
	JobEnd told;	 /* what sessions learn that wait for the end of the job */
};

} // namespace

static constexpr EndById cancelling = {LeaseEnd::kCancelled, RowEnd::kCancelled,
									   Outcome::kCancelled, JobEnd::kCancelled};
static constexpr EndById finishing = {LeaseEnd::kFinished, RowEnd::kAcked, Outcome::kAcked,
									  JobEnd::kAcked};

/*
 * End a job that a worker has. Returns false if the caller must look at the job again. *serial:
 * serial of the lease that an earlier call has revoked, or 0. *deleted: as for end_row().
 */
static bool
end_leased(SegmentSet &segments, Records &records, const EndById &how, int64 job_id, uint64 *serial,
		   JobRow *deleted)
{
	EndingLease ending;
	VirtualTransactionId other;
	switch (revoke(job_id, how.lease, serial, &ending, &other))
	{
		case Revoked::kInHand:
			return end_attempt_and_row(segments, records, ending, how.row, how.outcome, nullptr,
									   deleted);
		case Revoked::kWait:
			VirtualXactLock(other, true);
			if (any_prepared())
				resolve_prepared();
			break;
		case Revoked::kAgain:
			break;
	}
	return false;
}

/*
 * Return whether the job's present queue keeps records of finished jobs. ref: the queue of the
 * lease; SQL may have moved the job to another queue.
 */
static bool
keeps_finished_of(const JobRow &row, QueueRef ref)
{
	return (row.queue_id() == ref.queue_id ||
			find_attached_queue(tables().database, row.queue_id(), &ref)) &&
		   queue_keeps_finished(ref);
}

/*
 * End a live job, and return the state that it had before. Returns kNone if there is no such job
 * (*gone), or if the caller must look at the job again. *serial, *deleted: as in end_leased().
 */
static JobState
end_live(SegmentSet &segments, Records &records, const EndById &how, int64 job_id, uint64 *serial,
		 bool *gone, JobRow *deleted)
{
	JobRow row;
	TakenLease taken;
	JobFound found = find_waiting(segments, job_id, how.lease, &row, &taken);
	*gone = found == JobFound::kNone;
	if (found == JobFound::kLeased)
		return end_leased(segments, records, how, job_id, serial, deleted) ? JobState::kLeased
																		   : JobState::kNone;
	if (*gone)
		return JobState::kNone;
	/*
	 * End the row, add the record, and tell sessions that wait in pgq_result for the end of the
	 * job.
	 */
	const Finish finish = {&records, nullptr, nullptr};
	if (end_row(segments, taken.ref, row.place, job_id, how.row, nullptr, true,
				keeps_finished_of(row, taken.ref) ? &finish : nullptr, nullptr,
				deleted) != WriteResult::kDone)
	{
		give_back_gone(taken);
		return JobState::kNone;
	}
	if (taken.earlier || taken.lost)
	{
		reserve_lease_effects(1);
		tell_at_commit(taken.ref, taken.lease, how.lease, false);
	}
	leave_to_row(taken, row, how.told);
	if (row.blocked())
		return JobState::kBlocked;
	return row.delayed() && DatumGetTimestampTz(row.value(kJobRunAt)) > wall_now()
			   ? JobState::kScheduled
			   : JobState::kReady;
}

JobState
cancel_job(int64 job_id)
{
	SegmentSet segments(RowExclusiveLock);
	JobState state = JobState::kNone;
	uint64 serial = 0;
	bool gone = false;
	refuse_if_subscribed();
	/*
	 * If the first search finds neither a job nor a dead letter, search once more: between its two
	 * steps, the job may have become a dead letter, or the dead letter a job.
	 */
	for (int looks = 0; state == JobState::kNone && looks < 2;)
	{
		Records records;
		state = end_live(segments, records, cancelling, job_id, &serial, &gone, nullptr);
		records.write();
		if (gone && delete_dead_letter(job_id))
			state = JobState::kDead;
		looks = gone ? looks + 1 : 0;
		CHECK_FOR_INTERRUPTS();
	}
	segments.close_unwritten();
	return state;
}

/*
 * Return whether a worker has the job, and the caller may end it. Then the row need not be searched
 * by the id: the lease has its place. A wrong answer costs only time.
 */
static bool
is_in_work(int64 job_id)
{
	int32 queue_id = 0;
	(void) look_at_lease(tables().database, job_id, [&](const Lease &lease) {
		if (lease.state == LeaseState::kClaimed && !lease.doomed && !lease.ending)
			queue_id = lease.queue->queue_id;
	});
	return queue_id != 0 && may(Permission::kChange, queue_id);
}

bool
finish_job(SegmentSet &segments, Records &records, int64 job_id, JobRow *deleted)
{
	uint64 serial = 0;
	bool gone = false;
	refuse_if_subscribed();
	stop_point("finish-job");
	if (is_in_work(job_id) && end_leased(segments, records, finishing, job_id, &serial, deleted))
	{
		records.write_if_many();
		return true;
	}
	while (!gone)
	{
		if (end_live(segments, records, finishing, job_id, &serial, &gone, deleted) !=
			JobState::kNone)
		{
			records.write_if_many();
			return true;
		}
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

/* ---- change ---- */

static void
refuse_blocked(const JobRow &row)
{
	if (row.blocked())
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("job %lld is blocked", static_cast<long long>(row.job_id())),
						errdetail("The job becomes due when its parents have ended.")));
}

bool
update_job(int64 job_id, JobChange change, const QueueRef *to, bool as_read)
{
	JobRow row;
	TakenLease taken;
	SegmentSet segments(RowExclusiveLock);
	refuse_if_subscribed();
	bool done = false;
	while (!done &&
		   find_waiting(segments, job_id, LeaseEnd::kChanged, &row, &taken) == JobFound::kWaiting)
	{
		/*
		 * Leave an expired job alone: the scheduler ends it. Leave a message alone that another read
		 * has taken while this call waited.
		 */
		TimestampTz now = wall_now();
		if (row.expired(now) || (as_read && DatumGetTimestampTz(row.value(kJobRunAt)) > now))
		{
			leave_to_row(taken, row, JobEnd::kUnknown);
			break;
		}
		if (as_read)
			change.set(kJobAttempts, Int32GetDatum(row.next_attempt()));
		if (change.changed[kJobRunAt - 1])
		{
			refuse_blocked(row);
			change.set(kJobRunAt,
					   TimestampTzGetDatum(
						   put_off(row, DatumGetTimestampTz(change.values[kJobRunAt - 1]), now)));
		}
		if (change.changed[kJobPayload - 1] || change.changed[kJobHeaders - 1] || to != nullptr)
			change.set(kJobFence, Int64GetDatum(cut_tokens(tables().database)));
		if (!change.any())
			lock_if_fleeting(segments, taken, row);
		done = !change.any() || change_waiting(segments, row, change, to);
		leave_to_row(taken, row, JobEnd::kUnknown);
		CHECK_FOR_INTERRUPTS();
	}
	close_after(segments, done);
	return done;
}

/* ---- retry ---- */

/* Make the job due after `delay`. A job that is already due keeps its run_at. */
static bool
hasten(SegmentSet &segments, const TakenLease &taken, const JobRow &row, Datum delay)
{
	TimestampTz now = wall_now();
	TimestampTz due = moment_after(now, delay, "delay");
	if (due <= now && DatumGetTimestampTz(row.value(kJobRunAt)) <= now)
	{
		lock_if_fleeting(segments, taken, row);
		return true;
	}
	JobChange change{};
	change.set(kJobRunAt, TimestampTzGetDatum(put_off(row, due, now)));
	return change_waiting(segments, row, change, nullptr);
}

bool
retry_job(int64 job_id, Datum delay, const JobFilter &filter)
{
	JobRow row;
	TakenLease taken;
	SegmentSet segments(RowExclusiveLock);
	refuse_if_subscribed();
	bool done = false;
	JobFound found = JobFound::kNone;
	for (int looks = 0; !done && looks < 2;)
	{
		found = find_waiting(segments, job_id, LeaseEnd::kChanged, &row, &taken);
		/* A blocked job waits for its parents, and an expired one for the scheduler. */
		bool left = found == JobFound::kWaiting &&
					(row.blocked() || row.expired() || !matches(filter, row));
		if (found == JobFound::kWaiting && !left)
			done = hasten(segments, taken, row, delay);
		else if (found == JobFound::kNone)
			done = revive_dead_letter(job_id, delay, filter);
		if (found == JobFound::kWaiting)
			leave_to_row(taken, row, JobEnd::kUnknown);
		if (found == JobFound::kLeased || left)
			break;
		looks = found == JobFound::kNone ? looks + 1 : 0;
		CHECK_FOR_INTERRUPTS();
	}
	close_after(segments, done);
	return done;
}

} // namespace pgq
