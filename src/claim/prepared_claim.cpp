#include "claim/prepared_claim.h"

#include "rows/write.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Lock the rows of claimed jobs without waiting. PREPARE must not wait: another transaction that
 * has locked one of the rows may be waiting for this transaction.
 */
static void
lock_claimed_rows(const OpenClaim *claims, int n)
{
	SegmentSet segments(RowShareLock);
	for (int i = 0; i < n; i++)
	{
		auto lock = claims[i].held ? keep_job_now : share_lock_job;
		if (lock(segments, claims[i].place, claims[i].job_id) == WriteResult::kBusy)
			ereport(
				ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("row of job %lld is locked by another transaction",
						static_cast<long long>(claims[i].job_id)),
				 errdetail(
					 "PREPARE TRANSACTION locks the row of each job that the transaction has "
					 "claimed, or has met by its unique_key when it enqueued. It does not wait "
					 "for these locks."),
				 errhint("Try again, or acknowledge or fail the job in the same transaction.")));
		CHECK_FOR_INTERRUPTS();
	}
	segments.close();
}

static void
at_prepare(XactEvent event, void *)
{
	/*
	 * If max_prepared_transactions is 0, lock nothing: the server refuses PREPARE with its own
	 * error.
	 */
	if (event != XACT_EVENT_PRE_PREPARE || max_prepared_xacts == 0)
		return;
	OpenClaim *claims;
	int n = open_claims(&claims);
	if (n > 0)
		lock_claimed_rows(claims, n);
	pfree(claims);
}

void
prepared_claims_init()
{
	RegisterXactCallback(at_prepare, nullptr);
}

} // namespace pgq
