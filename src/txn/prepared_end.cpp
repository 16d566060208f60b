/* The end of prepared transactions: any process that finds such an end applies or undoes the effects (prepared.cpp). */
#include "engine/child_watch.h"
#include "engine/hold.h"
#include "engine/invalidate.h"
#include "txn/effects.h"
#include "txn/lock.h"
#include "txn/pending.h"

namespace pgq {

/*
 * Apply or undo what the prepared transaction does to a lease that it uses. Returns false if the
 * lease has ended.
 */
static bool
settle_prepared_use(Lease *lease, const Prepared &was, bool commit, int64 monotonic,
					QueueHold &hold)
{
	if (commit && was.ended)
	{
		/* The counters count a lost attempt as lost. `told` says how the job has ended. */
		if (was.how == LeaseEnd::kLost)
			hold.tell(lease->key.job_id, was.told);
		count_end(lease, was.how, was.dead, monotonic, hold);
		/*
		 * As at a commit, give the lease of a waiting job back: a claim that has met the lease may
		 * have dropped the job's hint.
		 */
		if (was.how == LeaseEnd::kChanged && !was_handed_out(lease))
			hold.give_back(lease);
		else
			hold.end(lease, is_gone(was.how));
		return false;
	}
	/* All uses of a lease belong to one transaction. The last one may end a doomed lease. */
	uint64 serial = serial_of(lease);
	while (lease->uses > 0)
		hold.stop_using(lease, true, monotonic);
	if (serial_of(lease) != serial)
		return false;
	if (was.cancels())
		undo_revocation(lease, monotonic, hold);
	return true;
}

static void
settle_prepared_claim(Lease *lease, bool commit, int64 monotonic, QueueHold &hold)
{
	if (!commit && lease->state == LeaseState::kClaiming)
		return hold.give_back(lease); /* the job was not handed out */
	if (!commit)
		return lose_claimed(lease, monotonic, hold);
	SetInvalidVirtualTransactionId(lease->claimer);
	note_wait(lease, monotonic);
	hold.unpin(lease, monotonic);
}

static void
settle_prepared_lease(Lease *lease, TransactionId xid, bool commit, int64 monotonic,
					  QueueHold &hold)
{
	Prepared was = lease->prepared;
	Prepared left = was;
	bool used = was.use_xid == xid;
	bool claimed = was.claim_xid == xid;
	bool moved = was.row_xid == xid;
	if (used)
		left = {.claim_xid = was.claim_xid, .row_xid = was.row_xid, .gone = was.gone};
	if (claimed)
		left.claim_xid = InvalidTransactionId;
	if (moved)
		left.row_xid = InvalidTransactionId;
	set_prepared(lease, left);
	if (moved && commit)
		lack_row(lease, was.gone);
	if (moved && commit && end_if_rows_gone(lease, monotonic, hold))
		return;
	if (used && !settle_prepared_use(lease, was, commit, monotonic, hold))
		return;
	if (claimed)
		settle_prepared_claim(lease, commit, monotonic, hold);
}

/*
 * Settle leases of the transaction, at most kHoldMax. Returns whether more leases may be left.
 */
static bool
settle_prepared_leases(TransactionId xid, bool commit, QueueHold &hold)
{
	int64 monotonic = monotonic_now();
	int settled = 0;
	dlist_node *head = &hold->prepared.head;
	for (dlist_node *node = head->next, *next; node != head && settled < kHoldMax; node = next)
	{
		next = node->next;
		auto *lease = container_of<Lease>(node, offsetof(Lease, in_line));
		if (lease->prepared.use_xid != xid && lease->prepared.claim_xid != xid &&
			lease->prepared.row_xid != xid)
			continue;
		settle_prepared_lease(lease, xid, commit, monotonic, hold);
		settled++;
	}
	return settled == kHoldMax;
}

/* Read the rows that the transaction has written again. touched: as for settle_prepared_queue(). */
static void
read_prepared_jobs(QueueHold &hold, const Touched *touched)
{
	if (touched == nullptr)
		return hold.read_all(clock_mark(hold.queue()));
	if (touched->jobs)
		hold.read_again(touched->changed);
}

/*
 * Apply the end of the prepared transaction to one queue: carry out or undo the changes to leases
 * that the transaction has prepared. If the transaction has committed, read the rows again that it
 * has written, or all rows if its changes are not known. Returns false if the slot belongs to
 * another queue by now. touched: the changes of the transaction to this queue; NULL: not known.
 */
static bool
settle_prepared_queue(const QueueRef &ref, TransactionId xid, bool commit, const Touched *touched)
{
	bool current = true;
	uint64 whole_xid = xid_with_epoch(xid);
	for (bool more = true; more && current;)
		current = change_queue(ref, [&](QueueHold &hold) {
			more = settle_prepared_leases(xid, commit, hold);
			if (more)
				return;
			if (commit)
				read_prepared_jobs(hold, touched);
			if (commit && touched != nullptr)
			{
				hold->counters.enqueued += touched->enqueued;
				hold->counters.deduplicated += touched->deduplicated;
			}
			if (touched != nullptr)
				settle_prepared_count(hold, *touched, whole_xid, commit);
			else
				forget_count(hold->count);
			hold.wake_scheduler();
		});
	return current;
}

/*
 * Settle all queues that the entry records. Returns false if the transaction has changed more
 * queues than recorded, or if a recorded queue has lost its slot.
 */
static bool
settle_touched(const PreparedEntry *entry, bool commit)
{
	bool all = true;
	for (int i = 0; i < shared->max_queues; i++)
	{
		const Touched &touched = entry->touched[i];
		QueueRef ref = {&shared->queues[i], touched.generation, touched.queue_id};
		if (touched.generation != 0 && !settle_prepared_queue(ref, entry->xid, commit, &touched))
			all = false;
	}
	return all && !entry->all_queues;
}

/* Apply or undo the effects of a transaction that has ended, then free the entry. */
static void
settle_transaction(PreparedEntry *entry, bool commit)
{
	if (!settle_touched(entry, commit))
		for_each_queue(nullptr, [&](const QueueRef &ref) {
			if (ref.queue->database->oid == entry->database)
				settle_prepared_queue(ref, entry->xid, commit, nullptr);
		});
	if (entry->deleted && commit)
		note_deletions(entry->database);
	if (entry->uncounted && commit)
		forget_counts(entry->database);
	if (entry->unfiled && commit)
		invalidate_all(entry->database);
	if ((entry->definitions || entry->all_queues) && commit)
		tell_of_definitions(entry->database);
	/* A rollback may be the last event of a batch, too: the undone enqueue of a member. */
	if (entry->batches || entry->all_queues)
		tell_all_batches(entry->database);
	if ((entry->children || entry->all_queues) && commit)
		tell_all_children(entry->database);
	pg_atomic_fetch_sub_u32(&shared->watched, 1);
	free_entry(entry);
	/*
	 * Settling the locks may raise an error. All steps that no other process would repeat are done
	 * by now.
	 */
	settle_prepared_locks();
}

void
resolve_prepared()
{
	for (int i = 0; i < max_prepared_xacts; i++)
	{
		PreparedEntry *entry = &shared->prepared_entries[i];
		TransactionId xid = xid_of_entry(entry);
		/*
		 * The order of the two questions matters: pg_xact says "committed" while the transaction
		 * still waits for its synchronous standby (protocol: ended-then-committed).
		 */
		if (!TransactionIdIsValid(xid) || TransactionIdIsInProgress(xid))
			continue;
		bool commit = TransactionIdDidCommit(xid);
		if (begin_resolving(entry, xid))
			settle_transaction(entry, commit);
	}
}

} // namespace pgq
