/*
 * The reconciler: checks that every live, unleased row is where the schedule says.
 *
 * The protocol makes a forgotten row impossible. The reconciler proves that in production, and
 * repairs a forgotten row should there be one (protocol: forgotten-is-proved). It reads the rows of
 * all queues by job id, a few at a time. A row that its schedule does not cover is only a suspect:
 * its transaction may be about to file it. It is forgotten if all of this holds a little later,
 * checked in this order:
 *   1. Of the transactions that were writing to segments at the first look none is left, or ten
 *      seconds have passed. The transaction that wrote this version has ended (its xid lock is
 *      released after its callbacks). No prepared transaction is still to be applied.
 *   2. No lease and no schedule knows the job.
 *   3. The same version is still live.
 *   4. Still no lease and no schedule knows the job.
 * So at (2) it was a live row that no claim would ever have found.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

inline constexpr int kSuspectsMax = 64;

/* A row version that no lease and no schedule led to at the first look. */
struct Suspect
{
	QueueRef ref;
	Hint hint;
	TransactionId xmin;
};

/* How far the rows have been read, and the suspects among them. */
struct Reconciliation
{
	int segment;   /* number of the segment being read */
	int64 next_id; /* in that segment, rows with smaller ids have been read */
	int n;
	Suspect suspects[kSuspectsMax];
	/* transactions that were writing to segments when suspects were noted */
	VirtualTransactionId *writers;
	int n_writers;
	int64 noted_at; /* monotonic time at which the first suspect was noted */
};

/*
 * Read the next row versions, at most `most`, and note suspects; stop early when there is no room
 * for more. Returns false at the end of all segments; the next call starts again. May wait for
 * locks on segments, unless the caller holds them.
 */
bool reconcile_rows(Reconciliation *state, int most);

/*
 * Drop the suspects and go on with the next segment: after a call has raised an error, the same
 * rows would raise it again.
 */
void skip_segment(Reconciliation *state);

/*
 * Look at the suspects again. Each forgotten row is filed, counted in `repaired`, reported with a
 * WARNING, and passed to report() if given. Returns false if it is too early; the suspects are
 * kept.
 */
bool repair_forgotten(Reconciliation *state, void (*report)(void *context, const Suspect &suspect),
					  void *context);

} // namespace pgq
