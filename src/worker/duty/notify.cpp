/*
 * Duty: send NOTIFY for the queues in which jobs became ready, at most once in
 * pgq_ext.notify_interval.
 */
#include "engine/hold.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

using Channel = char[NAMEDATALEN];

/*
 * Return whether any queue has its pending flag set. Reads the flags without the queues' locks: a
 * flag that this call misses is seen by the next call.
 */
static bool
anything_pending(const SchedulerState &scheduler)
{
	bool pending = false;
	for_each_queue(scheduler.database,
				   [&](const QueueRef &ref) { pending |= ref.queue->notify_pending; });
	return pending;
}

/* Clear the pending flags of all queues, and return the channels to notify. */
static int
take_pending(const SchedulerState &scheduler, Channel *channels)
{
	int n = 0;
	for_each_queue(scheduler.database, [&](const QueueRef &ref) {
		(void) change_queue(ref, [&](QueueHold &hold) {
			if (!hold->notify_pending)
				return;
			hold->notify_pending = false;
			strlcpy(channels[n], "pgq_", NAMEDATALEN);
			strlcat(channels[n++], hold->name, NAMEDATALEN);
		});
	});
	return n;
}

/*
 * Set the pending flag of every queue with the option notify, because the last scheduler, or a step
 * that failed, may have cleared flags without sending a NOTIFY.
 */
static void
assume_pending(const SchedulerState &scheduler)
{
	for_each_queue(scheduler.database, [](const QueueRef &ref) {
		(void) change_queue(ref,
							[](QueueHold &hold) { hold->notify_pending = hold->options.notify; });
	});
}

/*
 * Take the lock under which all sessions of the server commit their NOTIFYs, one session after the
 * other. The session that has the lock may be waiting for a synchronous standby. The commit of the
 * scheduler needs the lock too, but must not wait that long. Returns false if the lock is not
 * available within `patience` milliseconds.
 */
static bool
lock_notifications(int patience)
{
	LOCKTAG tag;
	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, InvalidOid, 0);
	return survives([&] {
		(void) set_config_option("lock_timeout", psprintf("%d", patience), PGC_SUSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
		(void) LockAcquire(&tag, AccessExclusiveLock, false, false);
	});
}

/*
 * Plan the next try to send NOTIFYs. had: lock_notifications() got the lock. Without the lock, rest
 * for ten times as long as the wait for the lock, and wait twice as long the next time. With the
 * lock, go back to the shortest wait.
 */
static void
note_lock(SchedulerState &scheduler, bool had)
{
	static constexpr int kMost = 1600;
	auto &notify = scheduler.notify;
	if (!had)
		notify.not_before = monotonic_now() + INT64CONST(10) * notify.patience * 1000;
	notify.patience = had ? SchedulerState::kPatience : Min(2 * notify.patience, kMost);
}

int64
notifications_wanted_at(const SchedulerState &scheduler)
{
	if (!scheduler.notify.owed && !anything_pending(scheduler))
		return INT64_MAX;
	return Max(scheduler.notify.sent + static_cast<int64>(notify_interval) * 1000,
			   scheduler.notify.not_before);
}

int64
send_notifications(SchedulerState &scheduler)
{
	if (scheduler.notify.owed)
		assume_pending(scheduler);
	scheduler.notify.owed = true;
	bool served = false;
	bool had = false;
	worker_transaction([&] {
		auto *channels =
			static_cast<Channel *>(palloc(static_cast<Size>(max_queues) * sizeof(Channel)));
		commit_lazily();
		served = lock_and_serve(AccessShareLock);
		had = served && lock_notifications(scheduler.notify.patience);
		int n = had ? take_pending(scheduler, channels) : 0;
		for (int i = 0; i < n; i++)
			Async_Notify(channels[i], "");
	});
	scheduler.notify.owed = false;
	if (served)
		note_lock(scheduler, had);
	else
		scheduler.notify.not_before = monotonic_now() + kHousekeeping;
	scheduler.notify.sent = monotonic_now();
	return INT64_MAX;
}

} // namespace pgq
