/* Effects on the memory about children (engine/child_watch.h). */
#include "engine/child_watch.h"
#include "txn/effects.h"
#include "txn/pending.h"

namespace pgq {

static constexpr int kJobsTold = 512; /* in one transaction */

static void
add_told_effect(int64 job_id, bool is_parent)
{
	Effects &effects = pending.effects;
	if (effects.all_children)
		return;
	if (effects.told.size == kJobsTold)
	{
		if (is_parent)
			effects.all_children = true;
		else if (effects.children_from == 0 || job_id < effects.children_from)
			effects.children_from = job_id;
		return;
	}
	effects.told.reserve(1);
	effects.told.push({job_id, is_parent});
}

void
tell_child_at_commit(int64 child_id)
{
	add_told_effect(child_id, false);
}

void
tell_parent_at_commit(int64 parent_id)
{
	add_told_effect(parent_id, true);
}

void
tell_all_children_at_commit()
{
	pending.effects.all_children = true;
}

void
settle_told(const Effects &ending)
{
	if (ending.all_children)
		return tell_all_children(MyDatabaseId);
	if (ending.children_from != 0)
		tell_children_from(MyDatabaseId, ending.children_from);
	for (const ToldEffect &effect : ending.told)
		effect.is_parent ? tell_parent(MyDatabaseId, effect.job_id)
						 : tell_child(MyDatabaseId, effect.job_id);
}

} // namespace pgq
