#include "txn/effects.h"

#include "engine/waiter.h"
#include "pg/scope.h"

#include <algorithm>

namespace pgq {

/*
 * sub is the subtransaction the effect belongs to; from the one it was last
 * promoted from: COMMIT_SUB(s) can be followed by ABORT_SUB(s), which must undo
 * what was just promoted.
 */
struct Tag
{
	SubTransactionId sub;
	SubTransactionId from;

	bool belongs_to(SubTransactionId s) const { return sub == s || from == s; }
};

struct LeaseEffect
{
	enum Kind : uint8
	{
		kClaim,
		kEnd,
		kReap,
	} kind;
	LeaseEnd how;
	bool dead;
	Tag tag;
	QueueRef ref;
	Lease *lease;
	uint64 token;
};

/* jobs: new jobs this hint stands for in the counters (0 for a retry, more where others were shed). */
struct HintEffect
{
	Tag tag;
	int32 jobs;
	Hint hint;
};

struct QueueEffect
{
	enum Kind : uint8
	{
		kCreated,
		kHold,
		kDrop,
	} kind;
	Tag tag;
	QueueRef ref;
};

/* A growing array in the transaction's memory. */
template <typename T> struct List
{
	T *items;
	int size;
	int capacity;

	void reserve(int more)
	{
		if (size + more <= capacity)
			return;
		int wanted = Max(Max(16, capacity * 2), size + more);
		Size bytes = mul_size(wanted, sizeof(T));
		items =
			static_cast<T *>(items == nullptr ? MemoryContextAllocHuge(TopTransactionContext, bytes)
											  : repalloc_huge(items, bytes));
		capacity = wanted;
	}
	void push(const T &item)
	{
		Assert(size < capacity);
		items[size++] = item;
	}
	T *begin() { return items; }
	T *end() { return items + size; }
};

/* Hints of one queue. Of those that do not fit into its window only the smallest keys are remembered. */
struct QueueHints
{
	QueueRef ref;
	List<HintEffect> hints;
	int shed_at; /* length from which shedding is tried */
	bool shed;
	Key shed_key;
	TimerKey shed_timer_key;
	int64 shed_horizon; /* greatest run_at of those that were due at once */
};

struct Effects
{
	List<LeaseEffect> leases;
	List<QueueHints> jobs;
	List<QueueEffect> queues;
	bool announce;

	bool empty() const
	{
		return leases.size == 0 && jobs.size == 0 && queues.size == 0 && !announce;
	}
};

struct RefillRole
{
	bool active;
	RefillKind kind;
	QueueRef ref;
};

static constinit Effects effects = {};
static constinit RefillRole refill_role = {};
static constinit bool callbacks_registered = false;

static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId mine,
								  SubTransactionId parent, void *arg);

void
effects_init()
{
	if (callbacks_registered)
		return;
	RegisterXactCallback(at_transaction_end, nullptr);
	RegisterSubXactCallback(at_subtransaction_end, nullptr);
	callbacks_registered = true;
}

static Tag
current_tag()
{
	return {GetCurrentSubTransactionId(), InvalidSubTransactionId};
}

/* ---- registering ---- */

void
reserve_lease_effects(int n)
{
	effects.leases.reserve(n);
}

static void
add_lease_effect(LeaseEffect::Kind kind, LeaseEnd how, const QueueRef &ref, Lease *lease)
{
	effects.leases.push(
		{kind, how, false, current_tag(), ref, lease, pg_atomic_read_u64(&lease->token)});
}

void
add_claim_effect(const QueueRef &ref, Lease *lease)
{
	add_lease_effect(LeaseEffect::kClaim, LeaseEnd::kLost, ref, lease);
}

void
forget_claim_effects(int n)
{
	Assert(n <= effects.leases.size);
	effects.leases.size -= n;
}

void
add_end_effect(const QueueRef &ref, Lease *lease, LeaseEnd how)
{
	add_lease_effect(LeaseEffect::kEnd, how, ref, lease);
}

void
add_reap_effect(const QueueRef &ref, Lease *lease)
{
	add_lease_effect(LeaseEffect::kReap, LeaseEnd::kLost, ref, lease);
}

static LeaseEffect *
ending_effect(const Lease *lease)
{
	LeaseEffect *effect = effects.leases.end();
	do
		effect--;
	while (effect->lease != lease || effect->kind == LeaseEffect::kClaim);
	Assert(effect >= effects.leases.begin());
	return effect;
}

void
set_end(const Lease *lease, LeaseEnd how)
{
	ending_effect(lease)->how = how;
}

void
set_dead(const Lease *lease)
{
	ending_effect(lease)->dead = true;
}

static QueueHints *
hints_of(const QueueRef &ref)
{
	/* A transaction touches few queues, and mostly the one it touched last. */
	for (int i = effects.jobs.size - 1; i >= 0; i--)
	{
		QueueHints &jobs = effects.jobs.items[i];
		if (jobs.ref.queue == ref.queue && jobs.ref.generation == ref.generation)
			return &jobs;
	}
	return nullptr;
}

/*
 * Keep the smallest hints of a subtransaction, a window full, and of the others
 * only the smallest keys: the cursor is pulled back to them. The hints up to end
 * that belong to it are in one run: nobody else registers while it is open.
 * Returns the new end of the run.
 */
static HintEffect *
shed_run(QueueHints *jobs, HintEffect *end, SubTransactionId sub)
{
	HintEffect *first = end;
	while (first > jobs->hints.begin() && first[-1].tag.sub == sub)
		first--;
	if (end - first < 2 * window_size)
		return end;
	HintEffect *keep = first + window_size;
	std::nth_element(first, keep, end, [](const HintEffect &a, const HintEffect &b) {
		return a.hint.key < b.hint.key;
	});

	/* Children that were promoted earlier are past their own commit for good. */
	for (HintEffect *e = first; e < keep; e++)
		e->tag.from = InvalidSubTransactionId;
	for (HintEffect *e = keep; e < end; e++)
	{
		first->jobs += e->jobs;
		if (!e->hint.delayed && (!jobs->shed || e->hint.key.run_at > jobs->shed_horizon))
			jobs->shed_horizon = e->hint.key.run_at;
		if (!jobs->shed || e->hint.key < jobs->shed_key)
			jobs->shed_key = e->hint.key;
		if (!jobs->shed || e->hint.timer_key() < jobs->shed_timer_key)
			jobs->shed_timer_key = e->hint.timer_key();
		jobs->shed = true;
	}
	return keep;
}

/* If the list has grown long: shed hints of sub, which end at run_end; what follows them moves up. */
static void
shed_hints(QueueHints *jobs, int run_end, SubTransactionId sub)
{
	if (jobs->hints.size < jobs->shed_at)
		return;
	HintEffect *end = jobs->hints.begin() + run_end;
	HintEffect *kept = shed_run(jobs, end, sub);
	int rest = jobs->hints.size - run_end;
	memmove(kept, end, rest * sizeof(HintEffect));
	jobs->hints.size = static_cast<int>(kept - jobs->hints.begin()) + rest;
	/* Where the runs of many open subtransactions fill the list, do not look at every call. */
	jobs->shed_at = Max(2 * jobs->hints.size, 2 * window_size);
}

void
reserve_hint(const QueueRef &ref)
{
	QueueHints *jobs = hints_of(ref);
	if (jobs == nullptr)
	{
		effects.jobs.reserve(1);
		effects.jobs.push(QueueHints{.ref = ref, .shed_at = 2 * window_size});
		jobs = hints_of(ref);
	}
	shed_hints(jobs, jobs->hints.size, GetCurrentSubTransactionId());
	jobs->hints.reserve(1);
}

void
add_hint(const QueueRef &ref, const Hint &hint, bool is_new)
{
	hints_of(ref)->hints.push({current_tag(), is_new ? 1 : 0, hint});
}

static void
add_queue_effect(QueueEffect::Kind kind, const QueueRef &ref)
{
	effects.queues.reserve(1);
	effects.queues.push({kind, current_tag(), ref});
}

void
add_created_effect(const QueueRef &ref)
{
	add_queue_effect(QueueEffect::kCreated, ref);
}

void
hold_queue(const QueueRef &ref)
{
	add_queue_effect(QueueEffect::kHold, ref);
	with_lwlock(ref.queue->lock, LW_EXCLUSIVE, [&] {
		if (is_current(ref))
			ref.queue->holds++;
	});
}

void
drop_queue_at_commit(const QueueRef &ref)
{
	add_queue_effect(QueueEffect::kDrop, ref);
	with_lwlock(ref.queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_current(ref))
			return;
		ref.queue->holds++;
		ref.queue->dropping = true;
		ref.queue->dropper = my_virtual_xid();
	});
}

void
announce_at_commit()
{
	effects.announce = true;
}

/* ---- the refill role ---- */

void
begin_refill_role(const QueueRef &ref, RefillKind kind)
{
	Assert(!refill_role.active);
	refill_role = {.active = true, .kind = kind, .ref = ref};
}

void
end_refill_role()
{
	refill_role.active = false;
}

void
abandon_refill()
{
	if (!refill_role.active)
		return;
	refill_role.active = false;
	Queue *queue = refill_role.ref.queue;
	with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_current(refill_role.ref))
			return;
		if (refill_role.kind == RefillKind::kWindow)
			queue->schedule.abandon_window_refill();
		else
			queue->schedule.abandon_timer_refill();
	});
	ConditionVariableBroadcast(&queue->refilled);
}

/* ---- applying ---- */

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

static bool
still_ours(const LeaseEffect &effect)
{
	return pg_atomic_read_u64(&effect.lease->token) == effect.token;
}

static void
count_end(QueueCounters *counters, const LeaseEffect &effect)
{
	switch (effect.how)
	{
		case LeaseEnd::kAcked:
			counters->acked++;
			break;
		case LeaseEnd::kFailed:
			counters->failed++;
			break;
		case LeaseEnd::kLost:
			counters->lost++;
			break;
		case LeaseEnd::kCancelled:
			counters->cancelled++;
			break;
		case LeaseEnd::kUncounted:
		case LeaseEnd::kStillLost:
			break;
	}
	counters->dead += effect.dead;
}

static void
commit_lease(const LeaseEffect &effect, int64 monotonic)
{
	switch (effect.kind)
	{
		case LeaseEffect::kClaim:
			unpin_lease(effect.lease);
			break;
		case LeaseEffect::kEnd:
		case LeaseEffect::kReap:
			count_end(&effect.ref.queue->counters, effect);
			if (effect.how == LeaseEnd::kStillLost)
				lose_lease(effect.lease, effect.lease->expired, monotonic);
			else
				end_lease(effect.lease);
			break;
	}
}

/* Returns true if a job became ready by it. */
static bool
undo_lease(const LeaseEffect &effect, int64 monotonic, Aftermath *aftermath)
{
	switch (effect.kind)
	{
		case LeaseEffect::kClaim:
			if (effect.lease->state == LeaseState::kClaiming)
				return give_back(effect.lease);
			lose_lease(effect.lease, false, monotonic);
			aftermath->wake_scheduler = true;
			return false;
		case LeaseEffect::kEnd:
			SetInvalidVirtualTransactionId(effect.lease->ender);
			unpin_lease(effect.lease);
			return false;
		case LeaseEffect::kReap:
			lose_lease(effect.lease, effect.lease->expired, monotonic);
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
				if (commit)
					commit_lease(effect, monotonic);
				else
					ready += undo_lease(effect, monotonic, &aftermath);
			}
			if (current && !commit)
				aftermath.wake_scheduler |=
					note_filed(ref.queue, ready, timer_before, &aftermath.wakeups);
		});
		aftermath.deliver(ref.queue);
	}
}

static void
file_hints(QueueHints &jobs, TimestampTz now)
{
	Queue *queue = jobs.ref.queue;
	HintEffect *next = jobs.hints.begin();
	bool shed = jobs.shed;
	while (next < jobs.hints.end() || shed)
	{
		Aftermath aftermath;
		with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
			if (!is_current(jobs.ref))
			{
				next = jobs.hints.end();
				shed = false;
				return;
			}
			int64 timer_before = queue->schedule.next_timer();
			int ready = 0;
			queue->schedule.fire(now);
			for (int n = 0; n < kHoldMax && next < jobs.hints.end(); n++, next++)
			{
				ready += queue->schedule.file(next->hint);
				queue->counters.enqueued += next->jobs;
			}
			if (shed)
			{
				queue->schedule.raise_horizon(jobs.shed_horizon);
				queue->schedule.pull_back(jobs.shed_key, jobs.shed_timer_key);
				queue->schedule.fire(now);
				ready = kHoldMax;
				shed = false;
			}
			aftermath.wake_scheduler = note_filed(queue, ready, timer_before, &aftermath.wakeups);
		});
		aftermath.deliver(queue);
	}
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
	if (event == XACT_EVENT_PRE_PREPARE && !effects.empty())
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot PREPARE a transaction that has enqueued, claimed or "
							   "finished pgq_ext jobs")));
	if (!commit && event != XACT_EVENT_ABORT)
		return;
	abandon_call();
	if (effects.empty())
	{
		effects = {};
		return;
	}

	/* Emptied before it is applied: an ABORT that follows finds nothing. */
	Effects ending = effects;
	effects = {};
	settle_leases(ending.leases.begin(), ending.leases.end(), commit);
	if (commit)
	{
		TimestampTz now = GetCurrentTimestamp();
		for (QueueHints &jobs : ending.jobs)
			file_hints(jobs, now);
		if (ending.announce)
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
	LeaseEffect *leases = first_of(effects.leases, sub);
	LeaseEffect *leases_end = effects.leases.end();
	effects.leases.size = static_cast<int>(leases - effects.leases.begin());
	settle_leases(leases, leases_end, false);

	for (QueueHints &jobs : effects.jobs)
		jobs.hints.size = static_cast<int>(first_of(jobs.hints, sub) - jobs.hints.begin());

	QueueEffect *queues = first_of(effects.queues, sub);
	while (effects.queues.end() > queues)
	{
		QueueEffect effect = effects.queues.items[--effects.queues.size];
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
		promote(effects.leases, mine, parent);
		for (QueueHints &jobs : effects.jobs)
		{
			/* Before, not after: what is promoted now may still be undone. */
			shed_hints(&jobs, static_cast<int>(first_of(jobs.hints, mine) - jobs.hints.begin()),
					   parent);
			promote(jobs.hints, mine, parent);
		}
		promote(effects.queues, mine, parent);
	}
}

} // namespace pgq
