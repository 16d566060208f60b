/*
 * Prepared transactions, at PREPARE TRANSACTION. prepared_end.cpp has what comes after their end.
 *
 * COMMIT PREPARED and ROLLBACK PREPARED run no callback of the extension. Any session can call
 * them, even after a restart or a failover. So PREPARE stores the effects in shared memory: each
 * lease stores how the transaction will change it (struct Prepared), and an entry remembers the
 * transaction and the queues that it has changed. A process that finds that the transaction has
 * ended applies or undoes the effects. Hints are not stored: the entry has the smallest keys of the
 * jobs that the transaction has written to each queue. The cursors of the queue go back to these
 * keys, and the rows are read from the table.
 *
 * After a restart, the entries are made anew from the server's list of prepared transactions. Each
 * new entry is for all queues of its database, and their cursors go back to -infinity. Leases exist
 * then only if they were saved (load/saved_lease.h), together with the changes that these
 * transactions will make to them. Rows that such a transaction has deleted or locked are BUSY until
 * it ends (protocol: busy-is-not-gone).
 */
#include "engine/hold.h"
#include "engine/invalidate.h"
#include "txn/effects.h"
#include "txn/lock.h"
#include "txn/pending.h"

#include <algorithm>

namespace pgq {

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
	/*
	 * If max_prepared_transactions is 0, reserve nothing: the server refuses PREPARE with its own
	 * error.
	 */
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

/* Return whether an effect from `next` on cancels or finishes the job of the lease by its id. */
static bool
is_ended_by_id(const Lease *lease, const LeaseEffect *next, const LeaseEffect *end)
{
	return std::any_of(next, end, [=](const LeaseEffect &effect) {
		return effect.lease == lease && effect.ends() && is_by_id(effect.how);
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
		if (effect.kind == LeaseEffect::kRevoke && !is_ended_by_id(lease, &effect + 1, end))
			undo_revocation(lease, monotonic_now(), hold);
		if (effect.kind == LeaseEffect::kRevoke)
			return;
		if (effect.kind == LeaseEffect::kRow)
			return hand_over_row(lease, effect.gone, xid);
		/*
		 * The counters count the end that `will.how` names. A tell effect replaces this end only if
		 * this end is kChanged.
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
	 * now: an entry has room for one queue of each slot. all_queues makes sure that the earlier
	 * queue is read again, too.
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

/*
 * Store which jobs of the queue memory will lack when the transaction has committed. This includes the jobs whose hints the
 * transaction did not remember (`shed`).
 */
static void
hand_over_jobs(PreparedEntry *entry, const QueueHints &jobs)
{
	int64 enqueued = 0;
	for (const HintEffect &effect : jobs.hints)
		enqueued += effect.jobs;
	touch(entry, jobs.ref, enqueued);
	Touched *touched = &entry->touched[jobs.ref.queue - shared->queues];
	if (touched->generation != jobs.ref.generation)
		return;
	if (!touched->jobs)
		touched->changed = ChangedRows::none();
	touched->jobs = true;
	for (const HintEffect &effect : jobs.hints)
		touched->changed.add(effect.hint);
	if (jobs.is_shed)
		touched->changed.add(jobs.shed);
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
	 * The entry stores no early effects. `deleted` makes sure that the groups of their jobs get new
	 * heads all the same. But sessions that wait for the end of these jobs are not told.
	 */
	entry->deleted = effects.deleted || effects.early.size > 0;
	entry->uncounted = effects.uncounted;
	entry->definitions = effects.definitions;
	entry->batches = effects.batches.size > 0 || effects.all_batches || effects.all_undone_batches;
	entry->children = effects.all_children || effects.told.size > 0;
	for (const LeaseEffect &effect : effects.leases)
	{
		touch(entry, effect.ref, 0);
		hand_over_lease(effect, effects.leases.end(), xid);
	}
	for (const QueueHints &jobs : effects.jobs)
		hand_over_jobs(entry, jobs);
	hand_over_counts(entry, effects);
	for (const DuplicateEffect &effect : effects.duplicates)
		touch(entry, effect.ref, 0, effect.jobs);
	hand_over_locks(effects, xid);
	activate_entry(entry, MyDatabaseId, xid);
}

} // namespace pgq
