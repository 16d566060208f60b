/*
 * Duty: make the slots of shared memory match the rows of pgq_ext.queue, set triggers that were
 * muted (catalog/own_trigger.h) to ENABLE ALWAYS, and end the scheduler of a database that has no
 * queues and no named locks.
 */
#include "batches/batch.h"
#include "catalog/incarnation.h"
#include "catalog/own_trigger.h"
#include "catalog/shape.h"
#include "catalog/token_key.h"
#include "catalog/topic_table.h"
#include "engine/child_watch.h"
#include "engine/invalidate.h"
#include "engine/named/lock_ends.h"
#include "schedules/cron_schedule.h"
#include "txn/effects.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

/*
 * End the scheduler if there have been no queues and no named locks for kStays microseconds. The
 * scheduler does not end at once, since a queue may be created soon after the last queue was
 * dropped.
 */
static void
leave_if_idle(SchedulerState &scheduler, const Attached &queues)
{
	static constexpr int64 kStays = 5 * USECS_PER_SEC;
	int64 now = monotonic_now();
	if (queues.queues > 0 || has_queues(MyDatabaseId) || has_locks(MyDatabaseId))
		scheduler.queues.busy = now;
	else if (now - scheduler.queues.busy > kStays)
		retire(scheduler, ExitState::kIdle);
}

static void
complain_of_rows(SchedulerState &scheduler, const Attached &queues)
{
	Attached &told = scheduler.queues.told;
	if (queues.left_out > 0 && told.left_out == 0)
		ereport(LOG,
				(errmsg("%d queues have no place in shared memory", queues.left_out),
				 errhint("Raise pgq_ext.max_queues (now %d) and restart the server.", max_queues)));
	if (queues.unreadable > 0 && told.unreadable == 0)
		ereport(LOG, (errmsg("%d rows of pgq_ext.queue have an invalid name", queues.unreadable),
					  errhint("Delete these rows, or give the queues names of 1 to %d bytes.",
							  kQueueNameMax)));
	told = queues;
}

/* Restore the muted triggers of the segments, which are locked. Returns whether a trigger was muted. */
static bool
restore_triggers_of_segments()
{
	bool restored = false;
	if (!has_whole_segments())
		return false;
	for (const Segment &segment : look_at_tables().all_segments())
	{
		Relation rel = table_open(segment.heap, NoLock);
		bool muted = shape_of(rel, segment.number).muted;
		table_close(rel, NoLock);
		if (muted)
			restored |= restore_triggers(segment.heap);
	}
	return restored;
}

/*
 * Restore the muted triggers of the segments, and of the tables of children. While they were muted, memory
 * was told neither of children nor of parents, and did not expect any. Returns whether a trigger of a
 * segment was muted.
 */
static bool
restore_triggers_of_jobs(SchedulerState &scheduler, const Tables &t)
{
	bool of_segments = restore_triggers_of_segments();
	bool restored = of_segments;
	for (Oid table : {t.job_dependency(), t.job_outcome()})
		if (OidIsValid(table) && has_half_muted_trigger(table))
			(void) survives([&] { restored |= restore_triggers(table); });
	if (restored)
	{
		note_rows_came(scheduler.database);
		begin_watching_children(scheduler.database);
	}
	return of_segments;
}

/*
 * Restore the muted triggers of the tables of topics. While the triggers are muted, each publish reads the
 * tables again.
 */
static void
restore_triggers_of_topics()
{
	for (TopicTable table : {TopicTable::kBinding, TopicTable::kPattern})
	{
		Oid oid = find_topic_table(table);
		if (OidIsValid(oid) && has_half_muted_trigger(oid))
			(void) survives([&] { (void) restore_triggers(oid); });
	}
}

/* Bring slots and triggers up to date. Act on the results after the table locks are released. */
int64
attach_queues(SchedulerState &scheduler)
{
	bool locked = false;
	bool anew = false;
	bool doubtful = false;
	bool subscribed = false;
	Attached queues = {};
	worker_transaction([&] {
		/*
		 * The extension's tables cannot be locked while, for example, a DROP EXTENSION has not
		 * committed.
		 */
		locked = lock_tables(AccessShareLock);
		if (!locked)
			return;
		const Tables &t = tables();
		anew = t.database != scheduler.database || t.database_generation != scheduler.generation;
		if (anew)
			return;
		(void) free_gone_incarnations();
		queues = attach_all_queues(t);
		subscribed = OidIsValid(t.subscription);
		doubtful = restore_triggers_of_jobs(scheduler, t);
		if (has_half_muted_trigger(t.queue))
			(void) restore_triggers(t.queue);
		if (has_half_muted_trigger(t.timetable()))
			(void) survives([&] {
				if (restore_triggers(t.timetable()))
					find_makers();
			});
		if (OidIsValid(t.job_batch()) && has_half_muted_trigger(t.job_batch()))
			(void) survives([&] {
				if (restore_triggers(t.job_batch()))
					find_batch_makers();
			});
		/* If the trigger was muted, workers may have missed changes of handlers. */
		if (OidIsValid(t.queue_handler()) && has_half_muted_trigger(t.queue_handler()) &&
			restore_triggers(t.queue_handler()))
			note_changed_definitions();
		restore_triggers_of_topics();
		keep_token_key(t);
	});
	if (anew)
		/*
		 * If the tables belong to another incarnation of the extension, or the database has another
		 * slot by now, end this scheduler, so that the next one starts with that slot.
		 */
		retire(scheduler, ExitState::kWanted);
	if (!locked)
		return monotonic_now() + kHousekeeping;
	leave_if_idle(scheduler, queues);
	/* If a subscription brings rows, it may have deleted the head of a group: memory must look for another. */
	if (subscribed)
		note_deletions(MyDatabaseId);
	if (doubtful)
		invalidate_all(MyDatabaseId);
	complain_of_rows(scheduler, queues);
	return monotonic_now() + kHousekeeping;
}

} // namespace pgq
