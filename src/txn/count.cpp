/*
 * Effects on the counts of a queue (engine/count.h): the rows that a transaction adds or ends, and
 * the room (depth) that it takes for new jobs.
 *
 * Room counts from the moment at which it is taken. Rows are counted at commit, in the first hold
 * of their queue's lock that the commit needs for another reason. In a queue with max_depth, rows
 * are counted before the leases end, so that a session that is told the end of a job finds the room
 * free.
 */
#include "engine/hold.h"
#include "engine/invalidate.h"
#include "txn/effects.h"
#include "txn/pending.h"

#include <algorithm>

namespace pgq {

static bool
is_same(const QueueRef &one, const QueueRef &other)
{
	return one.queue == other.queue && one.generation == other.generation;
}

/*
 * Return the count effect of the queue in the current subtransaction; add one if there is none. If
 * the effect was promoted from a child subtransaction, clear its tag.from: the effect is about to
 * get changes that are not the child's, and the child can no longer be aborted by itself.
 */
static CountEffect *
effect_of(const QueueRef &ref, Oid incarnation)
{
	List<CountEffect> &counts = pending.effects.counts;
	SubTransactionId sub = GetCurrentSubTransactionId();
	for (CountEffect *e = counts.end(); e > counts.begin() && e[-1].tag.sub == sub; e--)
		if (is_same(e[-1].ref, ref))
		{
			e[-1].tag.from = InvalidSubTransactionId;
			return e - 1;
		}
	counts.reserve(1);
	counts.push({.tag = {sub, InvalidSubTransactionId}, .ref = ref, .incarnation = incarnation});
	return counts.end() - 1;
}

void
note_rows(const QueueRef &ref, Oid incarnation, int64 rows)
{
	effect_of(ref, incarnation)->rows += rows;
}

void
note_dead_letters(const QueueRef &ref, Oid incarnation, int64 rows)
{
	effect_of(ref, incarnation)->dead += rows;
}

/*
 * Return the effect on the number of jobs that become due in that second, or NULL. Only the newest
 * effects are searched: jobs that are enqueued together mostly become due in the same second.
 */
static DueEffect *
find_due(const QueueRef &ref, int64 second)
{
	static constexpr int kLooks = 8;
	List<DueEffect> &dues = pending.effects.dues;
	SubTransactionId sub = GetCurrentSubTransactionId();
	DueEffect *first = dues.end() - Min(dues.size, kLooks);
	for (DueEffect *e = dues.end(); e > first && e[-1].tag.sub == sub; e--)
		if (e[-1].second == second && is_same(e[-1].ref, ref))
			return e - 1;
	return nullptr;
}

void
note_due(const QueueRef &ref, Oid incarnation, TimestampTz run_at, int64 rows)
{
	static constexpr int kDuesMax = 16384;
	List<DueEffect> &dues = pending.effects.dues;
	int64 second = DueSeconds::second_of(run_at);
	DueEffect *same = find_due(ref, second);
	/*
	 * The queue needs a CountEffect for two reasons: the field `recount` is part of it; and
	 * Effects::empty() looks at the CountEffects but not at Effects::dues, so without it a
	 * transaction with only dues would count as one without effects.
	 */
	CountEffect *effect = effect_of(ref, incarnation);
	if (same != nullptr)
	{
		same->tag.from = InvalidSubTransactionId;
		same->n += rows;
		return;
	}
	effect->recount |= dues.size == kDuesMax;
	if (effect->recount)
		return;
	dues.reserve(1);
	dues.push({{GetCurrentSubTransactionId(), InvalidSubTransactionId}, ref, second, rows});
}

/* ---- room ---- */

/*
 * Return the room that this transaction still has for new jobs of the queue: the room it has taken
 * and the rows it has ended, less the jobs it has added.
 */
static int64
own_room(const QueueRef &ref)
{
	int64 room = 0;
	for (const CountEffect &effect : pending.effects.counts)
		if (is_same(effect.ref, ref))
			room += effect.reserved - effect.rows;
	return room;
}

static DepthAnswer
reserve(QueueHold &hold, int64 wanted, CountEffect *effect, Fullness *fullness)
{
	JobCount &count = hold->count;
	*fullness = {depth_of(count), hold->options.max_depth, 0};
	if (fullness->max_depth == 0)
		return DepthAnswer::kTaken;
	if (count.state != JobCount::kKnown)
		return DepthAnswer::kUncounted;
	if (fullness->depth > fullness->max_depth - wanted)
		return DepthAnswer::kFull;
	count.reserved += wanted;
	effect->reserved += wanted;
	return DepthAnswer::kTaken;
}

DepthAnswer
take_room(const QueueRef &ref, Oid incarnation, int64 jobs, Fullness *fullness)
{
	CountEffect *effect = effect_of(ref, incarnation);
	DepthAnswer room = DepthAnswer::kTaken;
	int64 wanted = ref.queue->count.limited ? Max(jobs - own_room(ref), INT64CONST(0)) : 0;
	if (wanted > 0)
		(void) change_queue(
			ref, [&](QueueHold &hold) { room = reserve(hold, wanted, effect, fullness); });
	if (room == DepthAnswer::kTaken)
		effect->rows += jobs;
	else
		fullness->room = Max(fullness->max_depth - fullness->depth, INT64CONST(0)) + jobs - wanted;
	return room;
}

/* ---- at the end ---- */

namespace {
/* The effects of the ending transaction that have not been counted yet. */
struct Settling
{
	CountEffect *next;
	CountEffect *end;
	DueEffect *due;
	DueEffect *due_end;
	uint64 xid;
};

} // namespace

static constinit Settling settling = {};

static void
give_back_room(CountEffect *first, CountEffect *last)
{
	for (CountEffect *effect = first; effect < last; effect++)
		if (effect->reserved != 0)
			(void) change_queue(effect->ref,
								[&](QueueHold &hold) { hold->count.reserved -= effect->reserved; });
}

/* Add the effect to the count. Caller holds the queue's lock. */
static void
add(JobCount &count, const CountEffect &effect, uint64 xid)
{
	count.reserved -= effect.reserved;
	if (effect.recount)
		return forget_count(count);
	if (effect.rows != 0)
		add_to_count(count, xid, {CountDelta::kLive, 0, effect.rows});
	if (effect.dead != 0)
		add_to_count(count, xid, {CountDelta::kDead, 0, effect.dead});
}

/* Add at most kHoldMax DueEffects of the queue to its count, and remove them from `settling`. */
static void
add_dues(QueueHold &hold, const QueueRef &ref)
{
	int n = 0;
	for (DueEffect *e = settling.due; e < settling.due_end && n < kHoldMax; e++)
	{
		if (!is_same(e->ref, ref))
			continue;
		add_to_count(hold->count, settling.xid, {CountDelta::kDue, e->second, e->n});
		*e = *settling.due++;
		n++;
	}
}

static void
settle(QueueHold &hold, const QueueRef &ref)
{
	for (CountEffect *e = settling.next; e < settling.end; e++)
		if (is_same(e->ref, ref))
		{
			add(hold->count, *e, settling.xid);
			*e = *settling.next++;
		}
	if (settling.due < settling.due_end)
		add_dues(hold, ref);
}

void
settle_counts_of(QueueHold &hold)
{
	if (settling.next < settling.end || settling.due < settling.due_end)
		settle(hold, hold.ref());
}

/*
 * Count the effect in a separate hold of the queue's lock. If the slot of the effect belongs to
 * another queue now, the queue of the effect may have a new slot, whose memory lacks these rows. So
 * invalidate the memory of that queue.
 */
static void
settle_now(const CountEffect &effect)
{
	QueueRef ref = effect.ref;
	bool changed = effect.rows != 0 || effect.dead != 0 || effect.recount;
	if (changed && !is_alive(ref))
		invalidate_queue(MyDatabaseId, effect.incarnation, ref.queue_id);
	if (effect.reserved != 0 || may_be_counted(ref.queue->count))
		(void) change_queue(ref, [&](QueueHold &hold) { settle(hold, ref); });
}

void
begin_counts(const Effects &ending, bool commit)
{
	if (!commit)
		return give_back_room(ending.counts.begin(), ending.counts.end());
	settling = {ending.counts.begin(), ending.counts.end(), ending.dues.begin(), ending.dues.end(),
				U64FromFullTransactionId(GetTopFullTransactionIdIfAny())};
	for (CountEffect *e = settling.next; e < settling.end; e++)
		if (e->reserved != 0)
			settle_now(*e);
}

void
finish_counts()
{
	while (settling.next < settling.end)
	{
		CountEffect effect = *settling.next;
		settle_now(effect);
		/* Skip an effect whose queue keeps no count, or has lost its slot. */
		if (settling.next < settling.end && is_same(settling.next->ref, effect.ref))
			settling.next++;
	}
	while (settling.due < settling.due_end)
	{
		QueueRef ref = settling.due->ref;
		if (!may_be_counted(ref.queue->count) ||
			!change_queue(ref, [&](QueueHold &hold) { add_dues(hold, ref); }))
			settling.due++;
	}
	settling = {};
}

/* ---- prepared ---- */

void
hand_over_count(Touched *touched, const CountEffect &effect)
{
	touched->rows += effect.rows;
	touched->dead += effect.dead;
	touched->reserved += effect.reserved;
	touched->recount |= effect.recount;
}

void
hand_over_due(Touched *touched, const DueEffect &effect)
{
	int i = 0;
	while (i < touched->due_count && touched->due[i].second != effect.second)
		i++;
	touched->recount |= i == Touched::kDueMax;
	if (touched->recount)
		return;
	if (i == touched->due_count)
		touched->due[touched->due_count++] = {effect.second, 0};
	touched->due[i].n += effect.n;
}

void
settle_prepared_count(QueueHold &hold, const Touched &touched, uint64 xid, bool commit)
{
	JobCount &count = hold->count;
	if (!commit)
	{
		count.reserved -= touched.reserved;
		return;
	}
	CountEffect effect{};
	effect.rows = touched.rows;
	effect.dead = touched.dead;
	effect.reserved = touched.reserved;
	effect.recount = touched.recount;
	add(count, effect, xid);
	for (int i = 0; i < touched.due_count; i++)
		add_to_count(count, xid, {CountDelta::kDue, touched.due[i].second, touched.due[i].n});
}

uint64
xid_with_epoch(TransactionId xid)
{
	uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
	return next - (static_cast<uint32>(next) - xid);
}

/* ---- subtransactions ---- */

/* Merge effects of the same queue. Returns the end of the merged effects. */
static CountEffect *
merge(CountEffect *first, CountEffect *last)
{
	CountEffect *end = first;
	for (CountEffect *effect = first; effect < last; effect++)
	{
		CountEffect *same = first;
		while (same < end && !is_same(same->ref, effect->ref))
			same++;
		if (same == end)
			*end++ = *effect;
		else
		{
			same->rows += effect->rows;
			same->dead += effect->dead;
			same->reserved += effect->reserved;
			same->recount |= effect->recount;
		}
	}
	for (CountEffect *effect = first; effect < end; effect++)
		effect->tag.from = InvalidSubTransactionId;
	return end;
}

void
promote_counts(SubTransactionId mine, SubTransactionId parent)
{
	List<CountEffect> &counts = pending.effects.counts;
	CountEffect *first = counts.end();
	while (first > counts.begin() && first[-1].tag.sub == mine)
		first--;
	/*
	 * Merge the effects that the parent had before: they can only be undone together with the
	 * parent, so merging loses nothing, and many savepoints do not make many effects.
	 */
	CountEffect *older = first;
	while (older > counts.begin() && older[-1].tag.sub == parent)
		older--;
	CountEffect *merged = merge(older, first);
	for (CountEffect *effect = first; effect < counts.end(); effect++)
	{
		*merged = *effect;
		merged++->tag = {.sub = parent, .from = mine};
	}
	counts.size = static_cast<int>(merged - counts.begin());
	List<DueEffect> &dues = pending.effects.dues;
	for (DueEffect *e = dues.end(); e > dues.begin() && e[-1].tag.sub == mine; e--)
		e[-1].tag = {.sub = parent, .from = mine};
}

/*
 * Remove the effects of the subtransaction from the end of the list. Returns the first removed
 * effect. The memory of removed effects stays readable until the next push.
 */
template <typename Effect>
static Effect *
take_out(List<Effect> &list, SubTransactionId mine)
{
	Effect *first = list.end();
	while (first > list.begin() && first[-1].tag.belongs_to(mine))
		first--;
	list.size = static_cast<int>(first - list.begin());
	return first;
}

void
undo_counts(SubTransactionId mine)
{
	CountEffect *end = pending.effects.counts.end();
	give_back_room(take_out(pending.effects.counts, mine), end);
	(void) take_out(pending.effects.dues, mine);
}

} // namespace pgq
