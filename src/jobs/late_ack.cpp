#include "jobs/late_ack.h"

#include "catalog/subscription.h"
#include "engine/hold.h"
#include "engine/token.h"
#include "load/attach.h"
#include "steps/end_row.h"
#include "steps/permission.h"
#include "steps/waiting.h"

namespace pgq {

/* ---- whether a late ack is honoured ---- */

static bool
is_honoured(const JobRow &row, int64 token)
{
	/*
	 * If the job was enqueued after the lease was given, the lease was for another job with the
	 * same id. Ids are assigned again, for example, after DROP and CREATE EXTENSION.
	 */
	if (time_of_prefix(prefix_of(token)) < DatumGetTimestampTz(row.value(kJobEnqueuedAt)))
		return false;
	/*
	 * If the job has a unique key, an enqueue with this key may have changed the job since the
	 * lease was given.
	 */
	if (!row.is_null(kJobUniqueKey))
		return false;
	int64 fence = row.is_null(kJobFence) ? 0 : DatumGetInt64(row.value(kJobFence));
	return -token < fence && fence < token;
}

/*
 * Return whether the check bits in the token (core/token.h) prove that the token was a lease of
 * that job. After kFailedMax wrong tokens no late ack is accepted until the database is loaded
 * again.
 */
static bool
is_proven(const Load &load, int64 job_id, int64 token)
{
	static constexpr uint32 kFailedMax = 8;
	if (load.failed_checks >= kFailedMax)
		return false;
	if (check_of(token) == check_bits(load.key, job_id, prefix_of(token)))
		return true;
	/*
	 * A wrong token for a leased job does not count as a failed try: any late ack of a leased job
	 * is refused.
	 */
	Lease *lease;
	QueueRef ref;
	const Tables &t = tables();
	if (!find_lease(t.database, job_id, &lease, &ref) &&
		note_failed_check(t.database, t.database_generation) == kFailedMax)
		ereport(
			LOG_SERVER_ONLY,
			(errmsg(
				 "acknowledgements with leases from before the last server start are now refused "
				 "in database \"%s\"",
				 get_database_name(MyDatabaseId)),
			 errdetail(
				 "%u acknowledgements had a lease that was never given for their job. Jobs that "
				 "were in work at the last start of the server run again.",
				 kFailedMax),
			 errhint("Look for a client that acknowledges jobs with the leases of other jobs, or "
					 "that guesses leases.")));
	return false;
}

/*
 * Set the times of the lease for the latency counters. Only the age of the job is known, so the
 * attempt counts with a duration of 0.
 */
static void
note_enqueued(const TakenLease &taken, const JobRow &row)
{
	(void) change_queue(taken.ref, [&](QueueHold &) {
		taken.lease->times.enqueued_at = DatumGetTimestampTz(row.value(kJobEnqueuedAt));
		taken.lease->claimed_at = wall_now();
		taken.lease->handed_out_at = monotonic_now();
	});
}

static WriteResult
end_taken_row(SegmentSet &segments, Records &records, const TakenLease &taken, const JobRow &row,
			  const Datum *result)
{
	const Finish finish = {&records, nullptr, result};
	return end_row(segments, taken.ref, row.place, row.job_id(), RowEnd::kAcked, nullptr, true,
				   queue_keeps_finished(taken.ref) ? &finish : nullptr, result);
}

bool
ack_late(SegmentSet &segments, Records &records, int64 job_id, int64 token, const Datum *result)
{
	JobRow row;
	TakenLease taken;
	refuse_if_subscribed();
	Load load = read_load(tables().database, tables().database_generation);
	/*
	 * A token above mark_before can only come from a lost primary, which gave it out after the last
	 * WAL that this server has received. The rows here cannot have a fence that refuses such a
	 * token.
	 */
	if (token <= 0 || token > load.mark_before ||
		!locate_permitted(segments, Place{}, job_id, Permission::kAnswer, &row) ||
		!is_honoured(row, token) || !is_proven(load, job_id, token) ||
		!take_waiting(row, LeaseEnd::kAcked, false, &taken))
		return false;
	/*
	 * Another transaction may be changing the row: an SQL statement, or a transaction that was
	 * prepared before the start of the server. Wait for that transaction, and then check the row
	 * again.
	 */
	if (lock_job(segments, row.place, job_id) == WriteResult::kDone &&
		locate_permitted(segments, row.place, job_id, Permission::kAnswer, &row) &&
		is_honoured(row, token) &&
		end_taken_row(segments, records, taken, row, result) == WriteResult::kDone)
	{
		note_enqueued(taken, row);
		return true;
	}
	give_back_taken(taken);
	return false;
}

} // namespace pgq
