/*
 * Judging blocked children: what the scheduler does with a child whose parents have ended. The caller
 * has locked the segments (serving_transaction()), so no row of a parent is truncated away.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Number of children that are judged at once, at most. */
inline constexpr int kChildrenAtOnce = 64;

enum class Verdict : uint8
{
	kWaits,		/* a parent is live, or is a dead letter for which the child waits */
	kReady,		/* the child becomes ready */
	kCancelled, /* the child is cancelled */
	kUnknown,	/* it is not known how a parent has ended; rows may still come, as in a restore */
	kLater,		/* another session has the child in hand, or the child has not been looked at */
};

struct Judged
{
	int64 child_id;
	Verdict verdict;
	/* For kUnknown: the verdict if the missing rows do not come. */
	Verdict otherwise;
};

/*
 * Lock the rows of those of the children that are blocked, without waiting, and judge these by one
 * snapshot. Returns the number of blocked children among them, each with its verdict.
 */
int judge_children(const int64 *ids, int n, Judged (&judged)[kChildrenAtOnce]);

/*
 * Make the child ready, or cancel it. judge_children() has locked the row in this
 * transaction. Does not wait. Returns false if another session has the lease of the child, or if its
 * queue has no slot. Call this in a subtransaction.
 */
bool settle_child(int64 child_id, bool ready);

/* Find children of the parent with greater ids than `after`, in the order of their ids. */
int children_of(int64 parent_id, int64 after, int64 (&ids)[kChildrenAtOnce]);

/* Find blocked jobs with greater ids than `after`, in the order of their ids. */
int blocked_after(int64 after, int64 (&ids)[kChildrenAtOnce]);

} // namespace pgq
