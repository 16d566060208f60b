#include "jobs/late_ack.h"

#include "catalog/queue_row.h"
#include "catalog/subscription.h"
#include "engine/hold.h"
#include "engine/token.h"
#include "jobs/end_row.h"
#include "load/attach.h"
#include "txn/effects.h"

namespace pgq {

/* ---- whether it is honoured ---- */

static bool
is_honoured(const JobRow &row, int64 token)
{
	/* Enqueued later: a job of an extension that was created anew, with the ids of the old one. */
	if (time_of_prefix(prefix_of(token)) < DatumGetTimestampTz(row.value(kJobEnqueuedAt)))
		return false;
	/* Another job may have been merged into it meanwhile. */
	if (!row.is_null(kJobUniqueKey))
		return false;
	int64 fence = row.is_null(kJobFence) ? 0 : DatumGetInt64(row.value(kJobFence));
	return -token < fence && fence < token;
}

/* Is that a lease of that job? So many wrong ones, and no late ack of this load is honoured any more. */
static bool
is_proven(const Load &load, int64 job_id, int64 token)
{
	static constexpr uint32 kFailedMax = 8;
	if (load.failed_checks >= kFailedMax)
		return false;
	if (check_of(token) == check_bits(load.key, job_id, prefix_of(token)))
		return true;
	/* Of a job that somebody has, it would not have been honoured anyhow. */
	Lease *lease;
	QueueRef ref;
	const Tables &t = tables();
	if (!find_lease(t.database, job_id, &lease, &ref) &&
		note_failed_check(t.database, t.database_generation) == kFailedMax)
		ereport(
			LOG_SERVER_ONLY,
			(errmsg("no late acknowledgement is honoured any more in database \"%s\"",
					get_database_name(MyDatabaseId)),
			 errdetail("%u leases from before the last start were none of their job.", kFailedMax),
			 errhint("Somebody acknowledges jobs with leases of others, or guesses. Jobs that "
					 "were in work at the last start run again.")));
	return false;
}

/* ---- the job's lease ---- */

/* A lease that was taken to end the job, which nobody had. */
struct TakenLease
{
	QueueRef ref;
	Lease *lease;
};

/*
 * Will the lease of the job be free, or gone? Not if the job was handed out. *other: wait for that
 * transaction, or, if it is invalid, for a moment, and look again. A claim decides at once, mostly;
 * one that has not for_a_while may wait for a lock, of ours even, so it is waited for where the deadlock
 * detector sees it.
 */
static bool
may_become_free(int64 job_id, bool for_a_while, VirtualTransactionId *other)
{
	bool may = true;
	SetInvalidVirtualTransactionId(*other);
	(void) change_lease(tables().database, job_id, [&](QueueHold &hold, Lease *lease) {
		if (lease->state == LeaseState::kParked)
		{
			/* Nobody's: its row was busy when a claim looked. We shall wait for the row. */
			hold.give_back(lease);
			return;
		}
		if (lease->state == LeaseState::kClaiming)
			*other = for_a_while && !VirtualTransactionIdIsValid(lease->user) ? lease->claimer
																			  : lease->user;
		may = lease->state == LeaseState::kClaiming &&
			  !VirtualTransactionIdEquals(*other, my_virtual_xid());
	});
	return may;
}

[[noreturn]] static void
complain_full()
{
	ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					errmsg("too many jobs are claimed at the same time"),
					errdetail("The acknowledgement, with a lease from before the last start, needs "
							  "a place among them."),
					errhint("Try again, or raise pgq_ext.max_leases (now %d) and restart the "
							"server.",
							max_leases)));
}

/*
 * False: somebody has the job. Waits for who moves its row, or acks it, and for a claim that
 * has not decided yet whether it hands the job out.
 */
static bool
take_waiting(const JobRow &row, TakenLease *taken)
{
	static constexpr int kNaps = 100;
	for (int naps = 0;; naps++)
	{
		/* Take it, if nobody has it; */
		VirtualTransactionId other;
		if (!attach_queue_by_id(tables(), row.queue_id(), &taken->ref))
			return false;
		switch (take_lease_to_end(taken->ref, row.hint(), LeaseEnd::kAcked, &taken->lease, &other))
		{
			case TakeResult::kTaken:
				return true;
			case TakeResult::kFull:
				complain_full();
			case TakeResult::kHeld:
				break;
		}
		/* or ask who has, wait for that, and try again. */
		if (!may_become_free(row.job_id(), naps >= kNaps, &other))
			return false;
		if (VirtualTransactionIdIsValid(other))
			VirtualXactLock(other, true);
		else
			pg_usleep(1000);
		if (any_prepared())
			resolve_prepared();
		CHECK_FOR_INTERRUPTS();
	}
}

/* The job waits as before. */
static void
give_back_taken(const TakenLease &taken)
{
	forget_lease_effects(2);
	(void) change_queue(taken.ref, [&](QueueHold &hold) { hold.give_back(taken.lease); });
}

bool
ack_late(SegmentSet &segments, int64 job_id, int64 token)
{
	JobRow row;
	TakenLease taken;
	refuse_if_subscribed();
	Load load = read_load(tables().database, tables().database_generation);
	if (token <= 0 || prefix_of(token) >= load.base_prefix ||
		locate_job(segments, Place{}, job_id, true, &row) != WriteResult::kDone ||
		!is_honoured(row, token) || !is_proven(load, job_id, token) || !take_waiting(row, &taken))
		return false;
	if (locate_job(segments, row.place, job_id, true, &row) == WriteResult::kDone &&
		is_honoured(row, token) &&
		end_row(segments, row.place, job_id, RowEnd::kAcked, nullptr, true) == WriteResult::kDone)
		return true;
	give_back_taken(taken);
	return false;
}

} // namespace pgq
