/*
 * The reconciler: is every live, unleased row where the schedule says it is?
 *
 * The protocol makes a forgotten row impossible; this proves it in production, and repairs it
 * should it happen all the same (protocol: forgotten-is-proved). It reads the rows of all queues by
 * job id, a few at a time. A row that its schedule does not cover is only a suspect: its
 * transaction may be about to file it. It is forgotten if, looked at again a little later, in this
 * order
 *   1. no transaction that was writing to segments at the first look is there any
 *      more, or ten seconds have gone; nor is the one that wrote this version (its lock
 *      goes after its callbacks), and no prepared one is still to be applied;
 *   2. no lease and no schedule knows the job;
 *   3. the same version is still live;
 *   4. still no lease and no schedule knows it.
 * So at (2) it was a live row that nobody would ever have looked for.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

inline constexpr int kSuspectsMax = 64;

/* A row version that nothing leads to, at the first look. */
struct Suspect
{
	QueueRef ref;
	Hint hint;
	TransactionId xmin;
};

/* How far the rows have been read, and what was odd about them. */
struct Reconciliation
{
	int segment;   /* the one that is being read */
	int64 next_id; /* in it: rows of smaller ids have been read */
	int n;
	Suspect suspects[kSuspectsMax];
	VirtualTransactionId
		*writers; /* transactions that wrote to segments when suspects were noted */
	int n_writers;
	int64 noted_at; /* monotonic: the first of the suspects */
};

/*
 * Read on, at most `most` row versions, and note suspects; stops early when there is
 * no room for more. False: the end was reached, and the next call begins anew. The
 * caller can wait for locks on segments, or has them.
 */
bool reconcile_rows(Reconciliation *state, int most);

/* Go on with the next segment, and without the suspects: where a call has raised, so would the next. */
void skip_segment(Reconciliation *state);

/*
 * Look at the suspects again. Forgotten rows are filed and counted, told with a
 * WARNING, and to report, if given. False: it is too early, the suspects are kept.
 */
bool repair_forgotten(Reconciliation *state, void (*report)(void *context, const Suspect &suspect),
					  void *context);

} // namespace pgq
