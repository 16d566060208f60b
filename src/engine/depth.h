/*
 * How many jobs live in a queue (option max_depth): counted only while the queue has a limit.
 *
 * rows are those that are committed; reserved those that open transactions have room for, taken
 * when they enqueue and given back at their end, when rows gets what they have really added or
 * ended. rows begins with a count of the table (load/depth.h), made by whoever first needs it, while
 * jobs come and go:
 *
 *     UNKNOWN --begin_count--> LOGGING --publish_snapshot--> COUNTING --finish_count--> KNOWN
 *        ^                                                                                |
 *        +---------- forget_depth: no limit any more, or the count cannot be right -------+
 *
 * What a transaction has changed is added by its commit callback if, and only if, the count's
 * snapshot does not see it. That snapshot is kept, since a callback may come long after it: one
 * that is still on its way, though its rows were seen, would be counted twice otherwise, and one
 * that goes by when the count began, too. Callbacks that come before the snapshot is known are
 * logged. A callback that finds UNKNOWN does nothing: its rows are visible by then to any snapshot
 * of a count that begins later.
 *
 * What DELETE by hand takes out nobody notes row by row, which would cost every purge dearly. The count
 * may be high after it, never low; who is told that the queue is full counts anew then.
 */
#pragma once

#include "core/relaxed.h"
#include "engine/shared.h"

namespace pgq {

/* Under the queue's lock, but for what is Relaxed. */
struct DepthCount
{
	enum State : uint8
	{
		kUnknown,
		kLogging,
		kCounting,
		kKnown,
	};
	Relaxed<State> state; /* read racily by commit callbacks: see above */
	Relaxed<bool>
		limited;	  /* read racily by who enqueues: he is as one who came before that changed */
	uint32 serial;	  /* of the count; a count that was begun anew, or forgotten, has another */
	bool may_be_high; /* since the count began rows have been deleted by hand, of whatever queue */
	int64 rows;
	int64 reserved;

	/* The snapshot: of the transactions below xmax it does not see those in running. */
	uint64 xmax; /* with its epoch */
	int running_count;
	TransactionId *running; /* set when shared memory is made */

	static constexpr int kLogMax = 32;
	struct
	{
		uint64 xid; /* with its epoch */
		int64 rows;
	} log[kLogMax];
	int logged; /* kLogMax + 1: one too many */
};

/* The slot is a new queue's. */
void init_depth(DepthCount &depth, int64 max_depth);

/* The option is that from now on. */
void set_max_depth(DepthCount &depth, int64 max_depth);

/* The count is wrong, or may be: the next who needs it counts anew. */
void forget_depth(DepthCount &depth);

/* Of a transaction that has committed: so many rows more, or fewer. */
void count_rows(DepthCount &depth, uint64 xid, int64 rows);

/* May it matter to count_rows, or that rows have been deleted by hand? Asked without the lock, by a commit callback. */
inline bool
may_be_counted(const DepthCount &depth)
{
	return depth.state != DepthCount::kUnknown;
}

/* Jobs of which room is taken. Only when KNOWN. */
inline int64
depth_of(const DepthCount &depth)
{
	return depth.rows + depth.reserved;
}

/* ---- the count. Each of these but the first is false if it was forgotten, or begun anew ---- */

uint32 begin_count(DepthCount &depth);

/* False also if the log is full. running: at most running_max(). */
bool publish_snapshot(DepthCount &depth, uint32 serial, uint64 xmax, const TransactionId *running,
					  int n);
bool finish_count(DepthCount &depth, uint32 serial, int64 rows);

/* Transactions that can run at the same time, and the own one. */
int running_max();

} // namespace pgq
