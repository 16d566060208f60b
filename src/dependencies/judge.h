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
};

struct Judged
{
	int64 child_id;
	Verdict verdict;
	/* For kUnknown: the verdict if the missing rows do not come. */
	Verdict otherwise;
};

/*
 * Judge the blocked children among the ids by one snapshot, and write nothing. The ids ascend. *n:
 * their number; set to the number of ids that were looked at, since one call looks at a bounded
 * number of parents. Returns the number of blocked children, which are in `judged` with their
 * verdicts.
 */
int judge_children(const int64 *ids, int *n, Judged (&judged)[kChildrenAtOnce]);

/*
 * Lock the row of the child, and make the child ready or cancel it. Does not wait. Returns false if
 * another session has locked the row, or has the lease of the child, or if the queue of the child has
 * no slot. Call this in a subtransaction: the lock then belongs to the same subtransaction as the
 * write, so the server needs no multixact.
 */
bool settle_child(int64 child_id, bool ready);

/*
 * Find the children of any of the parents with ids greater than `after`, each once, in ascending order.
 * Returns their number, at most kChildrenAtOnce.
 */
int children_of(const int64 *parents, int n, int64 after, int64 (&ids)[kChildrenAtOnce]);

/* A child that is to be cancelled if this transaction has cancelled this parent. */
struct CancelEdge
{
	int64 child_id;
	int64 parent_id;
};

/*
 * Find jobs that are cancelled now that these parents are cancelled, without looking at the state of
 * any job: children of the parents, children of these children, and so on. A parent comes before its
 * children. Looks at no more than `most` dependencies, up to kChildrenAtOnce, so the result may be
 * incomplete. It leaves out children with on_parent_failure `run`, and children with many parents.
 * Returns the number of edges.
 */
int cancelled_by(const int64 *parents, int n, int most, CancelEdge (&edges)[kChildrenAtOnce]);

/*
 * Find the blocked jobs with ids greater than `after`, in ascending order. Returns their number, at
 * most kChildrenAtOnce.
 */
int blocked_after(int64 after, int64 (&ids)[kChildrenAtOnce]);

} // namespace pgq
