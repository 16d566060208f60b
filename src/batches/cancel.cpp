#include "batches/cancel.h"

#include "catalog/owner_sql.h"
#include "catalog/queue_lock.h"
#include "catalog/subscription.h"
#include "enqueue/member.h"
#include "pg/stop_point.h"
#include "rows/deleted_member.h"
#include "steps/end_row.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Delete the waiting members. A DELETE that finds a row which is being moved raises 40001. So first wait
 * for the mover, and keep moves from beginning until the DELETE has ended.
 *
 * If a member is being claimed, it may be deleted although a worker gets the lease, which is then stale, as
 * after pgq_cancel. The scheduler ends the other members.
 */
static int64
end_waiting_members(int64 batch_id)
{
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(batch_id), false}};
	int64 n = 0;
	require_is_leased();
	(void) lock_queue(0, QueueLock::kJobMoves, ShareLock, true);
	as_owner([&] {
		find_by_index();
		with_statement_kind(StatementKind::kCancel, [&] {
			n = static_cast<int64>(
				spi_execute("DELETE FROM pgq_ext.job WHERE batch_id OPERATOR(pg_catalog.=) $1 "
							"AND NOT pgq_ext.is_leased(job_id)",
							arguments));
		});
	});
	unlock_queue(0, QueueLock::kJobMoves, ShareLock);
	return n;
}

int64
cancel_batch(int64 batch_id)
{
	refuse_if_subscribed();
	require_batch_columns();
	(void) require_batch(batch_id);
	int64 n = end_waiting_members(batch_id);
	stop_point("batch-cancel-deleted");
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(batch_id), false}};
	/*
	 * Lock the row of the batch last. Otherwise a worker that has acked a member and then closes the batch
	 * would wait for this transaction, and this transaction for the worker.
	 */
	as_owner([&] {
		with_statement_kind(StatementKind::kBatch, [&] {
			(void) spi_execute("UPDATE pgq_ext.job_batch SET "
							   "closed_at = COALESCE(closed_at, pg_catalog.clock_timestamp()), "
							   "cancelled_at = COALESCE(cancelled_at, "
							   "pg_catalog.clock_timestamp()), pending = true "
							   "WHERE batch_id OPERATOR(pg_catalog.=) $1",
							   arguments);
		});
	});
	CommandCounterIncrement();
	tell_batch_at_commit(batch_id, BatchNews::kChange, 0);
	return n;
}

} // namespace pgq
