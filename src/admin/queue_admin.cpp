#include "admin/queue_admin.h"

#include "admin/option_columns.h"
#include "admin/privileges.h"
#include "catalog/create_segments.h"
#include "catalog/option_value.h"
#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "catalog/subscription.h"
#include "catalog/tables.h"
#include "core/batch_events.h"
#include "engine/held.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "ring/move.h"
#include "rows/deleted_member.h"
#include "steps/end_row.h"
#include "txn/effects.h"

#include <algorithm>

namespace pgq {

/*
 * Lock the table of queues in the mode of an SQL write, until the transaction ends. Until then no
 * other session can lock the table against writes.
 */
static void
lock_table_of_queues()
{
	LockRelationOid(tables().queue, RowExclusiveLock);
}

/*
 * Return whether no queue has that name. Waits for a transaction that is dropping such a queue.
 * Callers call this function once before they lock the name, so that they do not hold the lock of
 * the name during this wait.
 */
static bool
is_free(const char *name)
{
	QueueRef ref;
	while (find_queue(tables(), name, &ref))
	{
		VirtualTransactionId dropper = dropper_of(ref);
		if (!VirtualTransactionIdIsValid(dropper))
			return false;
		VirtualXactLock(dropper, true);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/* ---- create ---- */

/*
 * Create the segments, if there are none: the first queue of a database needs them. Other
 * transactions that need segments wait until this transaction ends.
 */
void
make_segments()
{
	if (look_at_tables().has_segments)
		return;
	(void) lock_queue(0, QueueLock::kSegments, ExclusiveLock, true);
	AcceptInvalidationMessages();
	as_owner([] { create_segments(); });
}

/*
 * Insert the queue's row. Returns false if the queue exists. If the first call of is_free() finds
 * the queue, this function locks neither the table of queues nor the name.
 */
static bool
make_row(const char *name, const Datum *options)
{
	if (!is_free(name))
		return false;
	make_segments();
	lock_table_of_queues();
	lock_name(name);
	if (!is_free(name))
		return false;
	as_owner([&] { insert_queue_row(name, options); });
	CommandCounterIncrement();
	return true;
}

bool
create_queue(const char *name, const Datum *options, bool if_not_exists)
{
	/*
	 * Create the segments and the row, then the slot. The counts of the slot begin with zero, so
	 * the rows of the queue need not be counted.
	 */
	refuse_if_queues_subscribed();
	if (!make_row(name, options))
	{
		if (if_not_exists)
			return false;
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT), errmsg("queue \"%s\" already exists", name),
				 errhint("Pass if_not_exists => true to accept an existing queue.")));
	}
	QueueRef ref;
	if (!find_queue(tables(), name, &ref))
		elog(ERROR, "queue \"%s\" was not created", name);
	/*
	 * Remove settings that are left over from an earlier queue with the same id: that queue was
	 * dropped while the extension's triggers were disabled.
	 */
	drop_settings(ref.queue_id);
	(void) change_queue(ref, [](QueueHold &hold) {
		begin_empty(hold->count, wall_now());
		no_starts(hold.queue());
		no_group_starts(hold.queue());
	});
	return true;
}

/* ---- alter ---- */

void
alter_queue(const char *name, const Datum *options, const bool *given)
{
	refuse_if_queues_subscribed();
	/*
	 * Serialize changes of the options until the options are set in shared memory: row locks are
	 * released before the commit callback sets the options, so older options could be set last.
	 */
	QueueRef before = resolve_queue(tables(), name, Permission::kAdminister);
	if (std::find(given, given + kQueueOptions, true) != given + kQueueOptions)
		(void) lock_queue(before.queue_id, QueueLock::kOptions, ExclusiveLock, true);
	bool there = false;
	as_owner([&] { there = update_queue_row(name, options, given); });
	CommandCounterIncrement();
	/*
	 * Look the queue up again: it may have been dropped while this session waited for a lock. If no
	 * row was updated, this transaction has not locked the row, so another session may be changing
	 * the options: do not set them here.
	 */
	QueueRef ref = resolve_queue(tables(), name, Permission::kAdminister);
	QueueRow row;
	if (!there || !read_queue_row(tables(), name, &row))
		return;
	check_together(row.options);
	set_options_at_commit(ref, row.options);
}

/* ---- the row ---- */

/* Lock the queue's row against other sessions that drop, rename or alter the queue, also by SQL. */
static void
lock_row(int32 queue_id)
{
	const SpiArgument id[] = {{INT4OID, Int32GetDatum(queue_id), false}};
	lock_table_of_queues();
	as_owner([&] {
		spi_execute("SELECT FROM pgq_ext.queue WHERE queue_id OPERATOR(pg_catalog.=) $1 FOR UPDATE",
					id);
	});
}

/*
 * Lock the queue's row. Both before and after the wait for the lock, check that the queue exists
 * and that the caller may change it. Returns false if if_exists and there is no such queue. hint:
 * as in resolve_queue_to_empty().
 */
static bool
lock_named_row(const char *name, bool if_exists, const char *hint, QueueRef *ref)
{
	for (int32 locked = 0;; lock_row(locked = ref->queue_id))
	{
		if (if_exists && !find_queue(tables(), name, ref))
			return false;
		*ref = resolve_queue_to_empty(tables(), name, hint);
		if (ref->queue_id == locked)
			return true;
	}
}

/* ---- rename ---- */

/*
 * Lock both names in a fixed order, so that two sessions that rename in opposite directions do not
 * deadlock.
 */
static void
lock_names(const char *one, const char *two)
{
	bool in_order = strcmp(one, two) < 0;
	lock_name(in_order ? one : two);
	lock_name(in_order ? two : one);
}

/*
 * Change the name of the queue in the callbacks of pending batches. names: the old and the new
 * name.
 */
static void
rename_in_callbacks(const SpiArgument (&names)[2])
{
	if (!OidIsValid(look_at_tables().job_batch()))
		return;
	as_owner([&] {
		with_statement_kind(StatementKind::kBatch, [&] {
			for (const char *callback : callback_names)
				spi_execute(
					psprintf("UPDATE pgq_ext.job_batch SET %1$s = pg_catalog.jsonb_set(%1$s, "
							 "'{queue}', pg_catalog.to_jsonb($2)) WHERE pending AND %1$s "
							 "OPERATOR(pg_catalog.->>) 'queue' OPERATOR(pg_catalog.=) $1",
							 callback),
					names);
		});
	});
}

void
note_new_name(int32 queue_id, const char *name, const char *new_name)
{
	const SpiArgument names[] = {{TEXTOID, CStringGetTextDatum(name), false},
								 {TEXTOID, CStringGetTextDatum(new_name), false}};
	QueueRef ref;
	lock_names(name, new_name);
	if (find_queue(tables(), name, &ref) && ref.queue_id == queue_id)
		rename_queue_at_commit(ref, new_name);
	forget_queue_name(name);
	as_owner([&] {
		spi_execute("UPDATE pgq_ext.timetable SET queue = $2 "
					"WHERE queue OPERATOR(pg_catalog.=) $1",
					names);
	});
	rename_in_callbacks(names);
}

void
rename_queue(const char *name, const char *new_name)
{
	refuse_if_queues_subscribed();
	QueueRef ref = resolve_queue_to_empty(tables(), name, nullptr);
	if (strcmp(name, new_name) == 0)
		return;
	(void) lock_named_row(name, false, nullptr, &ref);
	lock_names(name, new_name);
	if (!is_free(new_name))
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
						errmsg("queue \"%s\" already exists", new_name)));
	/* The trigger of pgq_ext.queue does not fire under as_owner(), so call note_new_name() here. */
	note_new_name(ref.queue_id, name, new_name);
	const SpiArgument row[] = {{INT4OID, Int32GetDatum(ref.queue_id), false},
							   {TEXTOID, CStringGetTextDatum(new_name), false}};
	as_owner([&] {
		spi_execute("UPDATE pgq_ext.queue SET queue = $2 "
					"WHERE queue_id OPERATOR(pg_catalog.=) $1",
					row);
	});
	CommandCounterIncrement();
}

/* ---- drop ---- */

static void
refuse_if_not_empty(const QueueRef &ref, const char *name, const char *hint)
{
	const SpiArgument id[] = {{INT4OID, Int32GetDatum(ref.queue_id), false}};
	bool jobs = false;
	bool dead = false;
	as_owner([&] {
		jobs = spi_execute(
				   "SELECT 1 FROM pgq_ext.job WHERE queue_id OPERATOR(pg_catalog.=) $1 LIMIT 1",
				   id) > 0;
		dead =
			spi_execute(
				"SELECT 1 FROM pgq_ext.dead_job WHERE queue_id OPERATOR(pg_catalog.=) $1 LIMIT 1",
				id) > 0;
	});
	if (jobs || dead)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE), errmsg("queue \"%s\" is not empty", name),
				 jobs ? errdetail("The queue has jobs.") : errdetail("The queue has dead letters."),
				 errhint("%s", hint)));
}

/* Wait for open transactions that have asserted, acked or failed a job of the queue. */
static void
wait_for_users(const QueueRef &ref)
{
	int most = MaxBackends + max_prepared_xacts;
	auto *users = static_cast<VirtualTransactionId *>(palloc(most * sizeof(VirtualTransactionId)));
	int n = users_of(ref, users, most);
	for (int i = 0; i < n; i++)
		VirtualXactLock(users[i], true);
	pfree(users);
}

/* Return the last transaction that took leases of the queue to move rows to another segment. */
static VirtualTransactionId
mover_of(const QueueRef &ref)
{
	VirtualTransactionId mover;
	SetInvalidVirtualTransactionId(mover);
	(void) look_at_queue(ref, [&](const Queue &queue) { mover = queue.mover; });
	return mover;
}

/*
 * Wait for sessions that have locked a whole segment, as a restore does. Such sessions write jobs
 * without locking the queue (api/trigger.cpp).
 */
static void
wait_for_lone_writers()
{
	LOCKTAG tags[kMaxSegments];
	List *awaited = NIL;
	for (const Segment &segment : look_at_tables().segments(kJobRing))
	{
		LOCKTAG *tag = &tags[segment.number];
		SET_LOCKTAG_RELATION(*tag, MyDatabaseId, segment.heap);
		awaited = lappend(awaited, tag);
	}
	WaitForLockersMultiple(awaited, AccessShareLock, false);
}

/*
 * Close the queue to writers. Transactions that have written jobs of the queue hold its lock, so
 * this transaction waits for them; later writers wait for this transaction. Afterwards no other
 * transaction has uncommitted jobs in the queue. Writers of other queues are not waited for.
 */
void
close_queue(const QueueRef &ref)
{
	drop_queue_at_commit(ref);
	(void) lock_queue(ref.queue_id, QueueLock::kWriters, ExclusiveLock, true);
	wait_for_users(ref);
	wait_for_mover(ref, mover_of(ref));
	wait_for_lone_writers();
}

void
close_empty_queue(const QueueRef &ref, const char *name, const char *hint)
{
	refuse_if_not_empty(ref, name, hint);
	close_queue(ref);
	refuse_if_not_empty(ref, name, hint);
}

bool
drop_queue(const char *name, bool if_exists, bool force,
		   void (*before_drop)(int32 queue_id, const char *name, bool force))
{
	QueueRef ref{};
	if (!lock_named_row(name, if_exists, "Pass if_exists => true if that is no error.", &ref))
		return false;
	refuse_if_subscribed();
	if (force)
		close_queue(ref);
	else
		close_empty_queue(ref, name, "Pass force => true to delete them with the queue.");
	before_drop(ref.queue_id, name, force);
	const SpiArgument id[] = {{INT4OID, Int32GetDatum(ref.queue_id), false}};
	as_owner([&] {
		end_all_rows(ref.queue_id);
		spi_execute("DELETE FROM pgq_ext.queue WHERE queue_id OPERATOR(pg_catalog.=) $1", id);
	});
	drop_settings(ref.queue_id);
	return true;
}

/* ---- purge ---- */

/*
 * A purge may delete a job that no worker has, even if a transaction uses the lease of the job to
 * change or end the job: the DELETE of the purge waits for that transaction at the row.
 */
bool
is_in_hand(int64 job_id)
{
	bool in_hand = false;
	(void) look_at_lease(tables().database, job_id, [&](const Lease &lease) {
		bool used =
			VirtualTransactionIdIsValid(lease.user) || TransactionIdIsValid(lease.prepared.use_xid);
		in_hand = other_holder(&lease) != nullptr ||
				  (lease.state == LeaseState::kClaiming && !used) ||
				  (lease.state == LeaseState::kClaimed && !(used && lease.doomed));
	});
	return in_hand;
}

uint64
purge_queue(const QueueRef &ref)
{
	uint64 purged = 0;
	refuse_if_subscribed();
	hold_queue(ref);
	/*
	 * Wait for the mover: a DELETE whose snapshot was taken during the move of a row misses the
	 * row.
	 */
	wait_for_mover(ref, mover_of(ref));
	/* The rows are deleted by SQL, so the row trigger subtracts them from the counts of the queue. */
	as_owner([&] { purged = end_waiting_rows(ref.queue_id); });
	return purged;
}

} // namespace pgq
