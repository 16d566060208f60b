/*
 * The end of a transaction or subtransaction: its effects are applied or undone.
 * Nothing in here can fail.
 */
#include "engine/waiter.h"
#include "pg/scope.h"
#include "txn/pending.h"

namespace pgq {

/* What one hold of a queue's lock did, to be told to others after its release. */
struct Aftermath
{
	Wakeups wakeups;
	bool wake_scheduler = false;

	void deliver(const Queue *queue)
	{
		wakeups.deliver();
		if (wake_scheduler)
			pgq::wake_scheduler(queue->database);
		wake_scheduler = false;
	}
};

bool
still_ours(const LeaseEffect &effect)
{
	return serial_of(effect.lease) == effect.serial;
}

void
count_end(const Lease *lease, LeaseEnd how, bool dead)
{
	if (how == LeaseEnd::kMoved)
		return;
	QueueCounters &counters = lease->queue->counters;
	/* A late ack: the job was handed out before this start. */
	counters.handed_out += lease->state == LeaseState::kClaiming;
	switch (how)
	{
		case LeaseEnd::kAcked:
			counters.acked++;
			break;
		case LeaseEnd::kFailed:
			counters.failed++;
			break;
		case LeaseEnd::kLost:
			counters.lost++;
			break;
		case LeaseEnd::kUncounted:
			counters.uncounted++;
			break;
		case LeaseEnd::kStillLost:
		case LeaseEnd::kLostBusy:
		case LeaseEnd::kLostFailing:
		case LeaseEnd::kMoved:
			break;
	}
	counters.dead += dead;
}

/* The reaper could not count it, or has not tried. */
static bool
stays_lost(const LeaseEffect &effect, int64 monotonic)
{
	switch (effect.how)
	{
		case LeaseEnd::kStillLost:
			put_back_lost(effect.lease);
			return true;
		case LeaseEnd::kLostBusy:
		case LeaseEnd::kLostFailing:
			put_off_lost(effect.lease, effect.how == LeaseEnd::kLostFailing, monotonic);
			return true;
		default:
			return false;
	}
}

/* Returns true if a job may be ready by it. */
static bool
commit_lease(const LeaseEffect &effect, int64 monotonic)
{
	switch (effect.kind)
	{
		case LeaseEffect::kClaim:
			SetInvalidVirtualTransactionId(effect.lease->claimer);
			unpin_lease(effect.lease);
			break;
		case LeaseEffect::kEnd:
		case LeaseEffect::kReap:
			if (stays_lost(effect, monotonic))
				break;
			count_end(effect.lease, effect.how, effect.dead);
			return end_lease(effect.lease, effect.how == LeaseEnd::kAcked);
	}
	return false;
}

/* Returns true if a job became ready by it. */
static bool
undo_lease(const LeaseEffect &effect, int64 monotonic, Aftermath *aftermath)
{
	switch (effect.kind)
	{
		case LeaseEffect::kClaim:
			if (effect.lease->state == LeaseState::kClaiming &&
				!pending.is_unreturnable(effect.lease))
			{
				if (effect.lease != pending.verifying)
					return give_back(effect.lease);
				park_lease(effect.lease, monotonic);
				return false;
			}
			lose_lease(effect.lease,
					   pending.is_unreturnable(effect.lease) ? Loss::kUnreturnable : Loss::kUndone,
					   monotonic);
			aftermath->wake_scheduler = true;
			return false;
		case LeaseEffect::kEnd:
			SetInvalidVirtualTransactionId(effect.lease->ender);
			unpin_lease(effect.lease);
			return false;
		case LeaseEffect::kReap:
			put_back_lost(effect.lease);
			return false;
	}
	return false;
}

/*
 * Apply or undo the lease effects [first, last), one hold a run of one queue.
 * Ends come before releases of pins of the same lease, because a claim is
 * registered before its end and the array is walked backwards.
 */
static void
settle_leases(const LeaseEffect *first, const LeaseEffect *last, bool commit)
{
	int64 monotonic = monotonic_now();
	while (last > first)
	{
		QueueRef ref = last[-1].ref;
		Aftermath aftermath;
		with_lwlock(ref.queue->lock, LW_EXCLUSIVE, [&] {
			bool current = is_current(ref);
			int64 timer_before = ref.queue->schedule.next_timer();
			int ready = 0;
			for (int n = 0; n < kHoldMax && last > first; n++)
			{
				const LeaseEffect &effect = last[-1];
				if (effect.ref.queue != ref.queue || effect.ref.generation != ref.generation)
					break;
				last--;
				if (!current || !still_ours(effect))
					continue;
				ready += commit ? commit_lease(effect, monotonic)
								: undo_lease(effect, monotonic, &aftermath);
			}
			if (current)
				aftermath.wake_scheduler |=
					note_filed(ref.queue, ready, timer_before, &aftermath.wakeups);
		});
		aftermath.deliver(ref.queue);
	}
}

static void
file_hints(QueueHints &jobs)
{
	Queue *queue = jobs.ref.queue;
	HintEffect *next = jobs.hints.begin();
	bool shed = jobs.shed;
	bool freed = false;
	while (next < jobs.hints.end() || shed)
	{
		Aftermath aftermath;
		with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
			if (!is_current(jobs.ref))
			{
				freed = next < jobs.hints.end() || shed;
				next = jobs.hints.end();
				shed = false;
				return;
			}
			int64 timer_before = queue->schedule.next_timer();
			int ready = 0;
			queue->schedule.fire(GetCurrentTimestamp());
			for (int n = 0; n < kHoldMax && next < jobs.hints.end(); n++, next++)
			{
				ready += queue->schedule.file(next->hint);
				queue->counters.enqueued += next->jobs;
			}
			if (shed)
			{
				queue->schedule.raise_horizon(jobs.shed_horizon);
				queue->schedule.pull_back(jobs.shed_key, jobs.shed_timer_key);
				queue->schedule.fire(GetCurrentTimestamp());
				ready = kHoldMax;
				shed = false;
			}
			aftermath.wake_scheduler = note_filed(queue, ready, timer_before, &aftermath.wakeups);
		});
		aftermath.deliver(queue);
	}
	if (freed)
		distrust(MyDatabaseId, jobs.incarnation, jobs.ref.queue_id);
}

static void
settle_queue(const QueueEffect &effect, bool commit)
{
	Queue *queue = effect.ref.queue;
	bool free_it =
		commit == (effect.kind == QueueEffect::kDrop) && effect.kind != QueueEffect::kHold;
	if (free_it)
		free_queue(effect.ref);
	if (free_it || effect.kind == QueueEffect::kCreated)
		return;
	Wakeups wakeups;
	with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_current(effect.ref))
			return;
		queue->holds--;
		if (effect.kind == QueueEffect::kDrop)
			queue->dropping = false;
		wake_waiters(queue, kHoldMax, &wakeups);
	});
	wakeups.deliver();
}

/* Nothing of a call that failed may stay behind. */
static void
abandon_call()
{
	abandon_refill();
	if (in_lines())
		leave_lines(nullptr);
}

static void
at_transaction_end(XactEvent event, void *)
{
	bool commit = event == XACT_EVENT_COMMIT;
	if (event == XACT_EVENT_PRE_PREPARE)
		reserve_watch();
	if (event == XACT_EVENT_PREPARE)
		hand_over_to_watch();
	if (!commit && event != XACT_EVENT_ABORT)
		return;
	release_watch();
	abandon_call();
	if (pending.effects.empty())
	{
		pending.effects = {};
		return;
	}

	/* Emptied before it is applied: an ABORT that follows finds nothing. */
	Effects ending = pending.effects;
	pending.effects = {};
	settle_leases(ending.leases.begin(), ending.leases.end(), commit);
	note_verifying(nullptr);
	if (commit)
	{
		for (QueueHints &jobs : ending.jobs)
			file_hints(jobs);
		if (ending.unfiled)
			distrust_all(MyDatabaseId);
		if (ending.announce || ending.announce_queue)
			announce_extension();
	}
	/* Newest first, so that a hold is taken off before its queue is freed. */
	for (int i = ending.queues.size - 1; i >= 0; i--)
		settle_queue(ending.queues.items[i], commit);
}

template <typename Effect>
static Effect *
first_of(List<Effect> &list, SubTransactionId sub)
{
	Effect *first = list.end();
	while (first > list.begin() && first[-1].tag.belongs_to(sub))
		first--;
	return first;
}

template <typename Effect>
static void
promote(List<Effect> &list, SubTransactionId sub, SubTransactionId parent)
{
	for (Effect *e = list.end(); e > list.begin() && e[-1].tag.sub == sub; e--)
		e[-1].tag = {.sub = parent, .from = sub};
}

static void
undo_subtransaction(SubTransactionId sub)
{
	LeaseEffect *leases = first_of(pending.effects.leases, sub);
	LeaseEffect *leases_end = pending.effects.leases.end();
	pending.effects.leases.size = static_cast<int>(leases - pending.effects.leases.begin());
	settle_leases(leases, leases_end, false);
	note_verifying(nullptr);

	for (QueueHints &jobs : pending.effects.jobs)
		jobs.hints.size = static_cast<int>(first_of(jobs.hints, sub) - jobs.hints.begin());

	QueueEffect *queues = first_of(pending.effects.queues, sub);
	while (pending.effects.queues.end() > queues)
	{
		QueueEffect effect = pending.effects.queues.items[--pending.effects.queues.size];
		settle_queue(effect, false);
	}
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		abandon_call();
		undo_subtransaction(mine);
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		promote(pending.effects.leases, mine, parent);
		for (QueueHints &jobs : pending.effects.jobs)
		{
			/* Before, not after: what is promoted now may still be undone. */
			shed_hints(&jobs, static_cast<int>(first_of(jobs.hints, mine) - jobs.hints.begin()),
					   parent);
			promote(jobs.hints, mine, parent);
		}
		promote(pending.effects.queues, mine, parent);
	}
}

void
effects_init()
{
	RegisterXactCallback(at_transaction_end, nullptr);
	RegisterSubXactCallback(at_subtransaction_end, nullptr);
}

} // namespace pgq
