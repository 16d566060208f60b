/*
 * Prepared transactions.
 *
 * COMMIT PREPARED and ROLLBACK PREPARED run no callback of the extension. Any session can call
 * them, even after a restart or a failover. So PREPARE stores the effects in shared memory: each
 * lease stores how the transaction will change it (struct Prepared), and an entry remembers the
 * transaction and the queues to which it has enqueued. A process that finds the transaction ended
 * applies the effects. Hints are not stored: the cursors of the queues go back to -infinity, and
 * the rows are read from the table.
 *
 * After a restart, the entries are made anew from the server's list of prepared transactions. Each
 * new entry is for all queues of its database. Leases exist then only if they were saved
 * (load/saved_lease.h), together with the changes that these transactions will make to them. Rows
 * that such a transaction has deleted or locked are BUSY until it ends
 * (protocol: busy-is-not-gone).
 */
#include "engine/hold.h"
#include "engine/invalidate.h"
#include "txn/effects.h"
#include "txn/lock.h"
#include "txn/pending.h"

#include <algorithm>

namespace pgq {

/* ---- PREPARE ---- */

/*
 * Take a free entry. If all entries are in use, settle the entries whose transactions have ended,
 * and try again.
 */
static PreparedEntry *
find_free_entry()
{
	PreparedEntry *entry = take_free_entry();
	while (entry == nullptr)
	{
		resolve_prepared();
		bool again = resolving_prepared();
		entry = take_free_entry();
		if (!again)
			break;
		pg_usleep(1000);
		CHECK_FOR_INTERRUPTS();
	}
	return entry;
}

void
reserve_watch()
{
	/* With max_prepared_transactions = 0 the server raises its own error. */
	if (pending.effects.empty() || max_prepared_xacts == 0)
		return;
	bool ddl = pending.effects.announce;
	for (const QueueEffect &effect : pending.effects.queues)
		ddl |= effect.kind != QueueEffect::kOptions;
	if (ddl)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot PREPARE a transaction that has created, renamed, dropped "
							   "or purged a pgq_ext queue")));
	check_locks_for_prepare(pending.effects);
	pending.entry = find_free_entry();
	if (pending.entry == nullptr)
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("too many prepared transactions"),
						errhint("Raise max_prepared_transactions (now %d) and restart the server.",
								max_prepared_xacts)));
}

void
release_watch()
{
	if (pending.entry != nullptr)
		free_entry(pending.entry);
	pending.entry = nullptr;
}

/* Return whether an effect from `next` on cancels the job of the lease. */
static bool
is_cancelled(const Lease *lease, const LeaseEffect *next, const LeaseEffect *end)
{
	return std::any_of(next, end, [=](const LeaseEffect &effect) {
		return effect.lease == lease && effect.ends() && effect.how == LeaseEnd::kCancelled;
	});
}

/*
 * Store a row effect in its lease, if the lease was handed out. A lease of a claim in progress
 * needs no row effect: the claim reads the row itself.
 */
static void
hand_over_row(Lease *lease, const RowsGone &gone, TransactionId xid)
{
	Prepared will = lease->prepared;
	if (lease->state != LeaseState::kClaimed)
		return;
	if (will.row_xid != xid)
		will.gone = {};
	will.row_xid = xid;
	will.gone.add(gone);
	set_prepared(lease, will);
}

/*
 * Store what the transaction will do to the lease. end: the end of the transaction's lease effects.
 */
static void
hand_over_lease(const LeaseEffect &effect, const LeaseEffect *end, TransactionId xid)
{
	(void) change_queue(effect.ref, [&](QueueHold &hold) {
		Lease *lease = effect.lease;
		if (!still_ours(effect))
			return;
		/*
		 * This transaction need not hold the job any longer: the row is locked or written, so
		 * claims find it BUSY.
		 */
		if (effect.kind == LeaseEffect::kHold)
			return let_go(lease, hold);
		if (lease->state == LeaseState::kHeld)
			return;
		Prepared will = lease->prepared;
		if (effect.kind == LeaseEffect::kRevoke && !is_cancelled(lease, &effect + 1, end))
			undo_revocation(lease, monotonic_now(), hold);
		if (effect.kind == LeaseEffect::kRevoke)
			return;
		if (effect.kind == LeaseEffect::kRow)
			return hand_over_row(lease, effect.gone, xid);
		/*
		 * The counters count the end that `will.how` names. A tell effect replaces this end only if
		 * it is just kChanged.
		 */
		if (effect.kind == LeaseEffect::kTell)
		{
			if (will.how == LeaseEnd::kChanged)
				will.how = effect.how;
			will.dead = effect.dead;
			will.told = end_of(effect.how, effect.dead);
			return set_prepared(lease, will);
		}
		if (effect.kind == LeaseEffect::kClaim)
			will.claim_xid = xid;
		else
			will.use_xid = xid;
		if (effect.ends())
		{
			will.ended = true;
			will.how = effect.how;
			will.dead = effect.dead;
		}
		set_prepared(lease, will);
	});
}

static void
touch(PreparedEntry *entry, const QueueRef &ref, int64 enqueued, int64 deduplicated = 0)
{
	Touched *touched = &entry->touched[ref.queue - shared->queues];
	/*
	 * If the slot has got another queue during this transaction, record the queue that has the slot
	 * now: an entry has room for one queue of each slot. all_queues covers the queue before.
	 */
	bool another = touched->generation != 0 && touched->generation != ref.generation;
	entry->all_queues |= another;
	if (another && !is_alive(ref))
		return;
	if (another)
		*touched = {};
	touched->generation = ref.generation;
	touched->queue_id = ref.queue_id;
	touched->enqueued += enqueued;
	touched->deduplicated += deduplicated;
}

/* Return what the entry notes about the queue; NULL if the slot belongs to another queue by now. */
static Touched *
touch_counted(PreparedEntry *entry, const QueueRef &ref)
{
	touch(entry, ref, 0);
	Touched *touched = &entry->touched[ref.queue - shared->queues];
	return touched->generation == ref.generation ? touched : nullptr;
}

static void
hand_over_counts(PreparedEntry *entry, const Effects &effects)
{
	for (const CountEffect &effect : effects.counts)
		if (Touched *touched = touch_counted(entry, effect.ref))
			hand_over_count(touched, effect);
	for (const DueEffect &effect : effects.dues)
		if (Touched *touched = touch_counted(entry, effect.ref))
			hand_over_due(touched, effect);
}

void
hand_over_to_entry()
{
	PreparedEntry *entry = pending.entry;
	Effects effects = pending.effects;
	/*
	 * Clear the effects even if there is no entry: the memory of the lists is freed with the
	 * transaction.
	 */
	pending.effects = {};
	pending.entry = nullptr;
	if (entry == nullptr)
		return;

	/* No other process reads the entry before activate_entry(). */
	TransactionId xid = GetTopTransactionIdIfAny();
	memset(entry->touched, 0, shared->max_queues * sizeof(Touched));
	entry->all_queues = false;
	entry->unfiled = effects.unfiled;
	/*
	 * The entry stores no early effects. So sessions that wait for the end of the jobs of these
	 * effects are not told.
	 */
	entry->deleted = effects.deleted || effects.early.size > 0;
	entry->uncounted = effects.uncounted;
	entry->schedules = effects.schedules;
	for (const LeaseEffect &effect : effects.leases)
	{
		touch(entry, effect.ref, 0);
		hand_over_lease(effect, effects.leases.end(), xid);
	}
	for (const QueueHints &jobs : effects.jobs)
	{
		int64 enqueued = 0;
		for (int i = 0; i < jobs.hints.size; i++)
			enqueued += jobs.hints.items[i].jobs;
		touch(entry, jobs.ref, enqueued);
	}
	hand_over_counts(entry, effects);
	for (const DuplicateEffect &effect : effects.duplicates)
		touch(entry, effect.ref, 0, effect.jobs);
	hand_over_locks(effects, xid);
	activate_entry(entry, MyDatabaseId, xid);
}

/* ---- COMMIT PREPARED, ROLLBACK PREPARED ---- */

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
		/*
		 * The counters count the end of a lost attempt as lost. How the job has ended is stored in
		 * `told`.
		 */
		if (was.how == LeaseEnd::kLost)
			hold.tell(lease->key.job_id, was.told);
		count_end(lease, was.how, was.dead, monotonic, hold);
		hold.end(lease, is_gone(was.how));
		return false;
	}
	/* All uses of a lease belong to one transaction. */
	while (lease->uses > 0)
		hold.stop_using(lease, true, monotonic);
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
 * Settle leases of the transaction, as many as one hold may handle. Returns whether more leases may
 * be left.
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

/*
 * Settle the leases of one queue that the transaction has used, then read the queue's rows again.
 * Returns false if the slot belongs to another queue by now. touched: the changes of the
 * transaction to this queue; NULL if these are not known.
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
				hold.read_all(clock_mark(hold.queue()));
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
	if ((entry->schedules || entry->all_queues) && commit)
		tell_of_schedules(entry->database);
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
