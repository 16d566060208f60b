/*
 * NOTIFY for the queues that have got something ready, not more often than
 * pgq_ext.notify_interval.
 */
#include "engine/hold.h"
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

using Channel = char[NAMEDATALEN];

/* A racy look: what is missed is seen in the next moment. */
static bool
anything_pending(const Shift &shift)
{
	bool pending = false;
	for_each_queue(shift.database,
				   [&](const QueueRef &ref) { pending |= ref.queue->notify_pending; });
	return pending;
}

/* Take the queues that have something to tell. */
static int
take_pending(const Shift &shift, Channel *channels)
{
	int n = 0;
	for_each_queue(shift.database, [&](const QueueRef &ref) {
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

/* Whoever had taken them has not told: so there is something to tell everywhere. */
static void
assume_pending(const Shift &shift)
{
	for_each_queue(shift.database, [](const QueueRef &ref) {
		(void) change_queue(ref,
							[](QueueHold &hold) { hold->notify_pending = hold->options.notify; });
	});
}

/*
 * The lock that has all notifications of the server commit one after the other: who has it may wait for a standby, and
 * for that the commit of a scheduler, which wants it in any case, shall not wait. False: it was not to be had in so many
 * milliseconds.
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

/* Where many sessions notify the line is long: each time in vain it waits for twice as long, and rests for ten times that. */
static void
note_lock(Shift &shift, bool had)
{
	static constexpr int kMost = 1600;
	auto &notify = shift.notify;
	if (!had)
		notify.not_before = monotonic_now() + INT64CONST(10) * notify.patience * 1000;
	notify.patience = had ? Shift::kPatience : Min(2 * notify.patience, kMost);
}

int64
notifications_wanted_at(const Shift &shift)
{
	if (!shift.notify.owed && !anything_pending(shift))
		return INT64_MAX;
	return Max(shift.notify.sent + static_cast<int64>(notify_interval) * 1000,
			   shift.notify.not_before);
}

int64
send_notifications(Shift &shift)
{
	if (shift.notify.owed)
		assume_pending(shift);
	shift.notify.owed = true;
	bool served = false;
	bool had = false;
	worker_transaction([&] {
		auto *channels =
			static_cast<Channel *>(palloc(static_cast<Size>(max_queues) * sizeof(Channel)));
		commit_lazily();
		served = lock_and_serve(AccessShareLock);
		had = served && lock_notifications(shift.notify.patience);
		int n = had ? take_pending(shift, channels) : 0;
		for (int i = 0; i < n; i++)
			Async_Notify(channels[i], "");
	});
	shift.notify.owed = false;
	if (served)
		note_lock(shift, had);
	else
		shift.notify.not_before = monotonic_now() + kHousekeeping;
	shift.notify.sent = monotonic_now();
	return INT64_MAX;
}

} // namespace pgq
