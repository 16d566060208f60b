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
	kLater, /* the child would be made ready or cancelled, but another session has its row in hand */
};

struct Judged
{
	int64 child_id;
	Verdict verdict;
};

/*
 * Judge the blocked ones among the children by one snapshot, and lock the rows of those that become
 * ready or are cancelled, without waiting. *n: the number of ids, which ascend; set to the number of
 * those that were looked at, since a step looks at a bounded number of parents. Returns the number of
 * blocked children among these, each with its verdict.
 */
int judge_children(const int64 *ids, int *n, Judged (&judged)[kChildrenAtOnce]);

/*
 * Carry out the verdict kReady or kCancelled. judge_children() has locked the row in this
 * transaction. Does not wait. Returns false if another session has the lease of the child, or if its
 * queue has no slot. Call this in a subtransaction.
 */
bool settle_child(const Judged &judged);

/*
 * Find children of any of the parents with greater ids than `after`, each once, in the order of their
 * ids.
 */
int children_of(const int64 *parents, int n, int64 after, int64 (&ids)[kChildrenAtOnce]);

/* Find blocked jobs with greater ids than `after`, in the order of their ids. */
int blocked_after(int64 after, int64 (&ids)[kChildrenAtOnce]);

} // namespace pgq
