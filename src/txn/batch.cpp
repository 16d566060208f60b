/*
 * Effects on the memory about batches (engine/batch_watch.h). At commit, memory notes the batches
 * whose members have ended. At a rollback, memory notes the batches to which the undone part has
 * added members.
 *
 * A batch that is noted without need costs a look. But no batch may be left out. A transaction
 * remembers kToldMax batches. If there are more, all batches are noted.
 */
#include "txn/effects.h"
#include "txn/pending.h"

#include <algorithm>

namespace pgq {

static constexpr int kToldMax = 64;

/*
 * Return the effect of the batch in the current subtransaction; add one if there is none. Returns
 * NULL if there are too many. As in count.cpp, an effect that was promoted from a child is the
 * parent's own from now on.
 */
static BatchEffect *
effect_of_batch(int64 batch_id)
{
	List<BatchEffect> &batches = pending.effects.batches;
	SubTransactionId sub = GetCurrentSubTransactionId();
	for (BatchEffect *e = batches.end(); e > batches.begin() && e[-1].tag.sub == sub; e--)
		if (e[-1].told.batch_id == batch_id)
		{
			e[-1].tag.from = InvalidSubTransactionId;
			return e - 1;
		}
	if (batches.size == kToldMax)
		return nullptr;
	batches.reserve(1);
	batches.push({.tag = {sub, InvalidSubTransactionId}, .told = {.batch_id = batch_id}});
	return batches.end() - 1;
}

/* Let the effect also tell at commit what `more` says. */
static void
tell_more(BatchEffect *effect, const BatchTold &more)
{
	BatchTold &told = effect->told;
	if (!effect->ends)
		told = more;
	effect->ends = true;
	told.news = std::max(told.news, more.news);
	told.first = std::min(told.first, more.first);
	told.last = std::max(told.last, more.last);
}

void
tell_batch_at_commit(int64 batch_id, BatchNews news, int64 job_id)
{
	if (pending.effects.all_batches)
		return;
	if (BatchEffect *effect = effect_of_batch(batch_id))
		tell_more(effect, {batch_id, news, job_id, job_id});
	else
		tell_all_batches_at_commit();
}

void
tell_batch_at_abort(int64 batch_id)
{
	if (pending.effects.all_undone_batches)
		return;
	if (BatchEffect *effect = effect_of_batch(batch_id))
		effect->adds = true;
	else
		pending.effects.all_undone_batches = true;
}

void
tell_all_batches_at_commit()
{
	pending.effects.all_batches = true;
}

/* ---- at the end. Nothing here can fail ---- */

static void
tell_of_undone(const BatchEffect *first, const BatchEffect *last)
{
	if (pending.effects.all_undone_batches)
		return tell_all_batches(MyDatabaseId);
	for (const BatchEffect *effect = first; effect < last; effect++)
		if (effect->adds)
			tell_batch(MyDatabaseId, {effect->told.batch_id, BatchNews::kChange, 0, 0});
}

void
settle_batches(const Effects &ending, bool commit)
{
	if (commit ? ending.all_batches : ending.all_undone_batches)
		return tell_all_batches(MyDatabaseId);
	if (!commit)
		return tell_of_undone(ending.batches.begin(), ending.batches.end());
	for (const BatchEffect &effect : ending.batches)
		if (effect.ends)
			tell_batch(MyDatabaseId, effect.told);
}

void
undo_batches(SubTransactionId mine)
{
	List<BatchEffect> &batches = pending.effects.batches;
	BatchEffect *end = batches.end();
	while (batches.size > 0 && batches.end()[-1].tag.belongs_to(mine))
		batches.size--;
	tell_of_undone(batches.end(), end);
}

/* Merge effects on the same batch. Returns the end of the merged effects. */
static BatchEffect *
merge_batches(BatchEffect *first, BatchEffect *last)
{
	BatchEffect *end = first;
	for (BatchEffect *effect = first; effect < last; effect++)
	{
		BatchEffect *same = std::find_if(first, end, [=](const BatchEffect &other) {
			return other.told.batch_id == effect->told.batch_id;
		});
		if (same == end)
			*end++ = *effect;
		else
		{
			same->adds |= effect->adds;
			if (effect->ends)
				tell_more(same, effect->told);
		}
	}
	return end;
}

void
promote_batches(SubTransactionId mine, SubTransactionId parent)
{
	List<BatchEffect> &batches = pending.effects.batches;
	BatchEffect *first = batches.end();
	while (first > batches.begin() && first[-1].tag.sub == mine)
		first--;
	BatchEffect *older = first;
	while (older > batches.begin() && older[-1].tag.sub == parent)
		older--;
	/*
	 * Merge the effects that the parent subtransaction had before: they can be undone only
	 * together. Merge the effects of the child, for the same reason. So even after many savepoints
	 * there are few effects.
	 */
	BatchEffect *older_end = merge_batches(older, first);
	BatchEffect *child_end = merge_batches(first, batches.end());
	for (BatchEffect *effect = older; effect < older_end; effect++)
		effect->tag.from = InvalidSubTransactionId;
	for (BatchEffect *effect = first; effect < child_end; effect++)
		effect->tag = {.sub = parent, .from = mine};
	BatchEffect *end = std::copy(first, child_end, older_end);
	batches.size = static_cast<int>(end - batches.begin());
}

} // namespace pgq
