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
	/* to be judged again: another session has the child, or the step has too many parents */
	kLater,
};

struct Judged
{
	int64 child_id;
	Verdict verdict;
};

/*
 * Lock the rows of the children that are blocked, without waiting, and judge these children by one
 * snapshot. Returns the number of blocked children, which are in `judged` with their verdicts.
 */
int judge_children(const int64 *ids, int n, Judged (&judged)[kChildrenAtOnce]);

/*
 * Make the child ready or cancel it, as the verdict says (kReady or kCancelled). judge_children()
 * has locked the row in this transaction. Does not wait. Returns false if another session has the
 * lease of the child, or if the queue of the child has no slot. Call this in a subtransaction.
 */
bool settle_child(const Judged &judged);

/*
 * Find the children of the parent with ids greater than `after`, in ascending order. Returns their
 * number, at most kChildrenAtOnce.
 */
int children_of(int64 parent_id, int64 after, int64 (&ids)[kChildrenAtOnce]);

/*
 * Find the blocked jobs with ids greater than `after`, in ascending order. Returns their number, at
 * most kChildrenAtOnce.
 */
int blocked_after(int64 after, int64 (&ids)[kChildrenAtOnce]);

} // namespace pgq
