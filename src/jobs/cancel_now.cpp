#include "jobs/cancel_now.h"

#include "engine/hold.h"
#include "jobs/change.h"
#include "load/attach.h"
#include "steps/end_row.h"
#include "steps/in_hand.h"
#include "txn/effects.h"

namespace pgq {

namespace {

enum class InWork : uint8
{
	kNo,
	kFree, /* a worker has the lease, and no transaction uses the lease */
	kUsed,
};

} // namespace

static InWork
look_at_worker(int64 job_id)
{
	InWork in_work = InWork::kNo;
	(void) look_at_lease(tables().database, job_id, [&](const Lease &lease) {
		bool used =
			VirtualTransactionIdIsValid(lease.user) || TransactionIdIsValid(lease.prepared.use_xid);
		if (lease.state == LeaseState::kClaimed)
			in_work = used ? InWork::kUsed : InWork::kFree;
	});
	return in_work;
}

/* End the row of a job whose lease this transaction has revoked and ends. */
static bool
end_in_work(int64 job_id)
{
	EndingLease ending;
	VirtualTransactionId other;
	Records records;
	uint64 serial = 0;
	if (revoke(job_id, LeaseEnd::kCancelled, &serial, &ending, &other) != Revoked::kInHand)
		ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
						errmsg("another transaction uses the lease of job %lld",
							   static_cast<long long>(job_id))));
	SegmentSet segments(RowExclusiveLock);
	bool ended = end_attempt_and_row(segments, records, ending, RowEnd::kCancelled,
									 Outcome::kCancelled, nullptr);
	if (ended)
		records.write();
	segments.close();
	return ended;
}

static bool
end_waiting(int64 job_id)
{
	JobRow row;
	QueueRef ref;
	Lease *lease;
	VirtualTransactionId other;
	Records records;
	const Finish finish = {&records, nullptr, nullptr};
	bool ended = false;
	SegmentSet segments(RowExclusiveLock);
	if (locate_job(segments, Place{}, job_id, false, &row) == WriteResult::kDone &&
		find_attached_queue(tables().database, row.queue_id(), &ref) &&
		take_lease_to_end(ref, row.hint(), LeaseEnd::kCancelled, &lease, &other) ==
			TakeResult::kTaken)
	{
		ended = end_row(segments, ref, row.place, job_id, RowEnd::kCancelled, nullptr, false,
						queue_keeps_finished(ref) ? &finish : nullptr) == WriteResult::kDone;
		if (!ended)
			set_end(lease, LeaseEnd::kChanged);
		records.write();
	}
	segments.close();
	return ended;
}

bool
cancel_job_now(int64 job_id)
{
	switch (look_at_worker(job_id))
	{
		case InWork::kFree:
			return end_in_work(job_id);
		case InWork::kNo:
			return end_waiting(job_id);
		case InWork::kUsed:
			break;
	}
	return false;
}

} // namespace pgq
