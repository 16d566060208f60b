/*
 * Judging blocked children: the scheduler finds out whether a child becomes ready or is cancelled,
 * now that parents have ended. The caller has locked the segments (serving_transaction()), so no
 * row of a parent is truncated away.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Greatest number of children that are judged in one step. */
inline constexpr int kChildrenAtOnce = 64;

enum class Verdict : uint8
{
	kWaits,		/* a parent is live, or is a dead letter for which the child waits */
	kReady,		/* the child becomes ready */
	kCancelled, /* the child is cancelled */
	kUnknown,	/* a parent is in no table, but its row may still come, as in a restore */
	kLater,		/* the child would become ready or be cancelled, but another session has its row */
};

struct Judged
{
	int64 child_id;
	Verdict verdict;
	/* For kUnknown: the verdict if the missing rows do not come. */
	Verdict otherwise;
};

/*
 * Judge the blocked children among the ids by one snapshot. Lock the rows of the children that become
 * ready or are cancelled, or may be, without waiting. The ids ascend. *n: their number; set to the number of ids
 * at which this step has looked, since a step looks at a bounded number of parents. Returns the
 * number of blocked children, which are in `judged` with their verdicts.
 */
int judge_children(const int64 *ids, int *n, Judged (&judged)[kChildrenAtOnce]);

/*
 * Make the child ready, or cancel it. judge_children() has locked the row in this transaction. Does not
 * wait. Returns false if another session has the lease of the child, or if the queue of the child has no
 * slot. Call this in a subtransaction.
 */
bool settle_child(int64 child_id, bool ready);

/*
 * Find the children of any of the parents with ids greater than `after`, each once, in ascending order.
 * Returns their number, at most kChildrenAtOnce.
 */
int children_of(const int64 *parents, int n, int64 after, int64 (&ids)[kChildrenAtOnce]);

/*
 * Find the blocked jobs with ids greater than `after`, in ascending order. Returns their number, at
 * most kChildrenAtOnce.
 */
int blocked_after(int64 after, int64 (&ids)[kChildrenAtOnce]);

} // namespace pgq
