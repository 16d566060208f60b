/*
 * The reconciler: checks that shared memory knows every live row that has no lease.
 *
 * A row that shared memory should know, but does not, is called forgotten. The protocol makes
 * forgotten rows impossible. The reconciler checks this in production, and files a forgotten row
 * should there be one (protocol: forgotten-is-proved). The reconciler reads the rows of all queues
 * by job id, a few at a time. A row that neither a lease nor the schedule of its queue
 * (core/schedule.h) knows is at first only a suspect: the transaction that wrote the row may be
 * about to file it. In a queue with fifo, a row that waits for the head of its group is no suspect,
 * since the end of the head leads to it; a batch looks up the head of each group once. The row is
 * forgotten if all of the following conditions hold a little later, checked in this order:
 *   1. All transactions that were writing to segments at the first look have ended, or ten
 *      seconds have passed. The transaction that wrote this version has ended, so its callbacks
 *      have run. The effects of prepared transactions that have ended have been made.
 *   2. No lease and no schedule knows the job.
 *   3. The same version is still live.
 *   4. Still no lease and no schedule knows the job.
 * So at condition 2 the row was live, and no claim would ever have found it.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

inline constexpr int kSuspectsMax = 64;

/* A row version that neither a lease nor the schedule of its queue knew at the first look. */
struct Suspect
{
	QueueRef ref;
	Hint hint;
	TransactionId xmin;
};

/* State of the reconciler: the position up to which rows have been read, and the suspects. */
struct Reconciliation
{
	int segment;   /* number of the segment being read */
	int64 next_id; /* rows of that segment with smaller ids have been read */
	int n;
	Suspect suspects[kSuspectsMax];
	/* transactions that were writing to segments when suspects were noted */
	VirtualTransactionId *writers;
	int n_writers;
	int64 noted_at; /* monotonic time at which the first suspect was noted */
};

/*
 * Read the next row versions, at most `most`, and note suspects; stop early when kSuspectsMax are
 * noted. Returns false at the end of all segments; the next call starts again. May wait for locks
 * of segments that the caller does not hold.
 */
bool reconcile_rows(Reconciliation *state, int most);

/*
 * Drop the suspects and go on with the next segment. To be called after reconcile_rows() has raised
 * an error, since the same rows would raise the error again.
 */
void skip_segment(Reconciliation *state);

/*
 * Look at the suspects again. Each forgotten row is filed, counted in the counter `repaired`,
 * reported with a WARNING, and passed to report() unless report is NULL. Returns false, and keeps
 * the suspects, if it is too early to decide.
 */
bool repair_forgotten(Reconciliation *state, void (*report)(void *context, const Suspect &suspect),
					  void *context);

} // namespace pgq
