/*
 * Counts of a queue: its live jobs, the live jobs that wait for their run_at, the blocked jobs, and
 * its dead letters.
 * Also its depth (option max_depth): the live jobs, and the room that open transactions have
 * reserved at enqueue and give back when they end.
 *
 * Only committed rows count. A count begins with reading the tables (load/count.h), by the
 * scheduler or by the first session that needs the depth. Jobs are inserted and ended during the
 * reading:
 *
 *     UNKNOWN --begin_count--> LOGGING --publish_snapshot--> COUNTING --finish_count--> KNOWN
 *        ^                                                                                |
 *        +----------------- forget_count: the count cannot be right ----------------------+
 *
 * The commit callback of a transaction adds its changes if, and only if, the snapshot of the count
 * does not see the transaction; otherwise a transaction whose rows were read would count twice. The
 * snapshot is kept, since a callback may come long after it was taken. Callbacks that come before
 * the snapshot is known are logged. A callback that finds UNKNOWN does nothing: any count that
 * begins later sees the transaction's rows.
 *
 * Waiting jobs are counted by the second in which they become due (core/due_seconds.h). Jobs that
 * are due after these seconds are one number, `beyond`. Before the clock reaches the last second,
 * the next part of the seconds is read in the same way, with a snapshot of its own. finish_part()
 * then takes the jobs of that part out of `beyond`, including the jobs of a transaction whose
 * callback has not come yet. So such a callback adds its jobs to `beyond`, not to the seconds. If
 * one more part was read before the callback came, it is not known where the jobs belong, and
 * everything is counted anew.
 */
#pragma once

#include "core/due_seconds.h"
#include "core/key.h"
#include "core/relaxed.h"
#include "engine/shared.h"

namespace pgq {

/* A snapshot in shared memory, which sees all transactions below xmax except those in `running`. */
struct SeenBy
{
	uint64 xmax; /* xid with epoch; 0: the snapshot sees no transaction */
	int n;
	TransactionId *running; /* array in shared memory, allocated at the start of the server */

	bool sees(uint64 xid) const;
	void set(uint64 new_xmax, const TransactionId *new_running, int new_n);
	void forget() { xmax = 0; }
};

/* A change of one count by a transaction. */
struct CountDelta
{
	enum What : uint8
	{
		kLive,
		kDead,
		kDue,
	} what;
	int64 second; /* for kDue: the second in which the jobs become due */
	int64 n;	  /* number of jobs; negative: fewer */
};

/*
 * Return whether jobs that become due in this second are blocked. Blocked jobs are one number, and not
 * a part of the seconds: while they are blocked, no part has to be read because of them.
 */
constexpr bool
is_blocked_second(int64 second)
{
	return second == DueSeconds::second_of(kBlockedRunAt);
}

/* Result of reading the tables. */
struct FoundRows
{
	int64 live;
	int64 dead;
	int64 blocked; /* a part of `live` */
	/*
	 * Jobs of transactions that were prepared before the start of the server; some of these
	 * transactions may have ended since.
	 */
	int64 unresolved;
	DueSeconds due;

	/* Count a live job that waits for this second. */
	void add_waiting(int64 second)
	{
		if (is_blocked_second(second))
			blocked++;
		else
			due.add(second, 1);
	}
};

/* The counts of a queue. Protected by the queue's lock, except for the Relaxed fields. */
struct JobCount
{
	enum State : uint8
	{
		kUnknown,
		kLogging,
		kCounting,
		kKnown,
	};
	Relaxed<State> state; /* also read without the lock, by commit callbacks */
	/*
	 * The queue has a max_depth. Enqueue reads this flag without the lock. An old value has the
	 * same effect as an enqueue before the change of max_depth.
	 */
	Relaxed<bool> limited;
	uint32 serial; /* serial of the present count; changes when a count is begun or forgotten */
	int64 live;
	int64 dead;
	int64 blocked;
	/*
	 * Jobs of transactions that were prepared before the start (FoundRows), a part of the depth.
	 * When such a prepared transaction ends, the counts are forgotten.
	 */
	int64 unresolved;
	int64 reserved;
	DueSeconds due;
	SeenBy whole; /* snapshot with which the whole queue was counted */

	/*
	 * The seconds at which jobs become due are read from the table part by part. State of the next
	 * part.
	 */
	enum Part : uint8
	{
		kIdle,
		kPartLogging,
		kReading,
	} part_state;
	uint32 part_serial; /* serial of the part; changes when a part is begun or forgotten */
	/* Snapshot with which the last part was read or, in state kReading, is being read. */
	SeenBy part;
	SeenBy before; /* snapshot of the part before `part` */

	static constexpr int kLogMax = 64;
	struct
	{
		uint64 xid; /* xid with epoch of the transaction */
		CountDelta delta;
	} log[kLogMax];
	int logged; /* number of entries in the log; kLogMax + 1: the log has overflowed */
};

/* Initialize the counts of a slot for a new queue. */
void init_count(JobCount &count, int64 max_depth);

/* Note a changed max_depth. */
void set_max_depth(JobCount &count, int64 max_depth);

/* Forget the counts, since they may be wrong. */
void forget_count(JobCount &count);

/*
 * Begin with all counts known to be 0, for a queue that this transaction has just created: the
 * queue has no rows yet, and all later changes will be added.
 */
void begin_empty(JobCount &count, TimestampTz now);

/* Add a change by a transaction that has committed. */
void add_to_count(JobCount &count, uint64 xid, const CountDelta &delta);

/*
 * Return whether add_to_count() may have an effect. Commit callbacks call this function without the
 * lock.
 */
inline bool
may_be_counted(const JobCount &count)
{
	return count.state != JobCount::kUnknown;
}

/* Return the depth: live jobs and reserved room. Valid only in state KNOWN. */
inline int64
depth_of(const JobCount &count)
{
	return count.live + count.unresolved + count.reserved;
}

/*
 * Return whether a count is missing or does not cover the time `now`. True also while a count is
 * under way.
 */
bool wants_count(const JobCount &count, TimestampTz now);

/* Return whether the next part of the seconds should be read soon. */
bool wants_part(const JobCount &count, TimestampTz now);

/*
 * Return the number of jobs that wait for their run_at, without the blocked ones. Valid only if
 * wants_count() is false.
 */
int64 waiting_of(const JobCount &count, TimestampTz now);

/*
 * ---- the count ----
 *
 * begin_count() returns the serial of the new count, which the caller passes to publish_snapshot()
 * and finish_count(). These return false if the count was forgotten or begun anew. The caller fills
 * *found with the rows that the snapshot sees.
 */

uint32 begin_count(JobCount &count, TimestampTz now, FoundRows *found);

/*
 * Returns false also if the log has overflowed. running: the n transactions that the snapshot does
 * not see although they are below xmax, at most running_max().
 */
bool publish_snapshot(JobCount &count, uint32 serial, uint64 xmax, const TransactionId *running,
					  int n);
bool finish_count(JobCount &count, uint32 serial, const FoundRows &found);

/*
 * ---- the next part of the seconds ----
 *
 * begin_part() returns false if nothing has to be read. publish_part() and finish_part() return false
 * if the part was forgotten or begun anew.
 */

bool begin_part(JobCount &count, TimestampTz now, uint32 *serial, DueSeconds *found);
bool publish_part(JobCount &count, uint32 serial, uint64 xmax, const TransactionId *running, int n);
bool finish_part(JobCount &count, uint32 serial, const DueSeconds &found);

/* Return how many transactions can run at the same time, including the caller's own. */
int running_max();

/* Number of snapshots in each queue's JobCount. */
inline constexpr int kKeptSnapshots = 3;

} // namespace pgq
