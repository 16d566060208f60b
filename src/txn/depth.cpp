/*
 * How many rows a transaction adds to queues and takes from them, and what room it has taken for
 * that (engine/depth.h). The room counts at once; the rows at commit, before its leases end, so
 * that whoever is told of an end finds the room.
 */
#include "engine/doubt.h"
#include "engine/hold.h"
#include "txn/effects.h"
#include "txn/pending.h"

namespace pgq {

static bool
is_of(const DepthEffect &effect, const QueueRef &ref)
{
	return effect.ref.queue == ref.queue && effect.ref.generation == ref.generation;
}

/* That of the open subtransaction. Of a child that was promoted earlier nothing is undone by itself any more. */
static DepthEffect *
effect_of(const QueueRef &ref, Oid incarnation)
{
	List<DepthEffect> &depths = pending.effects.depths;
	SubTransactionId sub = GetCurrentSubTransactionId();
	for (DepthEffect *e = depths.end(); e > depths.begin() && e[-1].tag.sub == sub; e--)
		if (is_of(e[-1], ref))
		{
			e[-1].tag.from = InvalidSubTransactionId;
			return e - 1;
		}
	depths.reserve(1);
	depths.push({{sub, InvalidSubTransactionId}, ref, incarnation, 0, 0});
	return depths.end() - 1;
}

void
note_rows(const QueueRef &ref, Oid incarnation, int64 rows)
{
	effect_of(ref, incarnation)->rows += rows;
}

/* What it has ended, or has room for, and has not filled again. */
static int64
own_room(const QueueRef &ref)
{
	int64 room = 0;
	for (const DepthEffect &effect : pending.effects.depths)
		if (is_of(effect, ref))
			room += effect.reserved - effect.rows;
	return room;
}

static Room
reserve(QueueHold &hold, int64 wanted, DepthEffect *effect, Fullness *fullness)
{
	DepthCount &depth = hold->depth;
	*fullness = {depth_of(depth), hold->options.max_depth, depth.may_be_high};
	if (fullness->max_depth == 0)
		return Room::kTaken;
	if (depth.state != DepthCount::kKnown)
		return Room::kUncounted;
	if (fullness->depth > fullness->max_depth - wanted)
		return Room::kFull;
	depth.reserved += wanted;
	effect->reserved += wanted;
	return Room::kTaken;
}

Room
take_room(const QueueRef &ref, Oid incarnation, int64 jobs, Fullness *fullness)
{
	DepthEffect *effect = effect_of(ref, incarnation);
	Room room = Room::kTaken;
	int64 wanted = ref.queue->depth.limited ? Max(jobs - own_room(ref), INT64CONST(0)) : 0;
	if (wanted > 0)
		(void) change_queue(
			ref, [&](QueueHold &hold) { room = reserve(hold, wanted, effect, fullness); });
	if (room == Room::kTaken)
		effect->rows += jobs;
	return room;
}

/* ---- at the end ---- */

/* Under the queue's lock. */
static void
settle(DepthCount &depth, int64 reserved, int64 rows, uint64 xid, bool commit)
{
	depth.reserved -= reserved;
	if (commit)
		count_rows(depth, xid, rows);
}

void
settle_depths(const DepthEffect *first, const DepthEffect *last, bool commit)
{
	uint64 xid = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	for (const DepthEffect *effect = first; effect < last; effect++)
	{
		/* The slot has changed hands: what the queue's present one has counted lacks these rows. */
		if (commit && effect->rows != 0 && !is_alive(effect->ref))
			distrust(MyDatabaseId, effect->incarnation, effect->ref.queue_id);
		bool counts = commit && effect->rows != 0 && may_be_counted(effect->ref.queue->depth);
		if (effect->reserved != 0 || counts)
			(void) change_queue(effect->ref, [&](QueueHold &hold) {
				settle(hold->depth, effect->reserved, effect->rows, xid, commit);
			});
	}
}

void
settle_prepared_depth(QueueHold &hold, const Touched &touched, uint64 xid, bool commit)
{
	settle(hold->depth, touched.reserved, touched.rows, xid, commit);
}

uint64
xid_with_epoch(TransactionId xid)
{
	uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
	return next - (static_cast<uint32>(next) - xid);
}

/* ---- subtransactions ---- */

/* Those of one queue become one. Returns their new end. */
static DepthEffect *
merge(DepthEffect *first, DepthEffect *last)
{
	DepthEffect *end = first;
	for (DepthEffect *effect = first; effect < last; effect++)
	{
		DepthEffect *same = first;
		while (same < end && !is_of(*same, effect->ref))
			same++;
		if (same == end)
			*end++ = *effect;
		else
		{
			same->rows += effect->rows;
			same->reserved += effect->reserved;
		}
	}
	for (DepthEffect *effect = first; effect < end; effect++)
		effect->tag.from = InvalidSubTransactionId;
	return end;
}

void
promote_depths(SubTransactionId mine, SubTransactionId parent)
{
	List<DepthEffect> &depths = pending.effects.depths;
	DepthEffect *first = depths.end();
	while (first > depths.begin() && first[-1].tag.sub == mine)
		first--;
	/* What the parent has by now is past any undoing but its own: so many savepoints do not make many effects. */
	DepthEffect *older = first;
	while (older > depths.begin() && older[-1].tag.sub == parent)
		older--;
	DepthEffect *merged = merge(older, first);
	for (DepthEffect *effect = first; effect < depths.end(); effect++)
	{
		*merged = *effect;
		merged++->tag = {.sub = parent, .from = mine};
	}
	depths.size = static_cast<int>(merged - depths.begin());
}

void
undo_depths(SubTransactionId mine)
{
	List<DepthEffect> &depths = pending.effects.depths;
	DepthEffect *end = depths.end();
	DepthEffect *first = end;
	while (first > depths.begin() && first[-1].tag.belongs_to(mine))
		first--;
	depths.size = static_cast<int>(first - depths.begin());
	settle_depths(first, end, false);
}

} // namespace pgq
