/*
 * How many jobs a queue has: those that live, those of them that wait for their run_at, and its dead
 * letters. And its depth (option max_depth): those that live, and the room that open transactions
 * have taken when they enqueued and give back at their end.
 *
 * All is counted by the value of committed rows. It begins with a count of the tables
 * (load/count.h), made for the scheduler, or by who first needs the depth, while jobs come and go:
 *
 *     UNKNOWN --begin_count--> LOGGING --publish_snapshot--> COUNTING --finish_count--> KNOWN
 *        ^                                                                                |
 *        +----------------- forget_count: the count cannot be right ----------------------+
 *
 * What a transaction has changed is added by its commit callback if, and only if, the count's
 * snapshot does not see it. That snapshot is kept, since a callback may come long after it: one
 * that is still on its way, though its rows were seen, would be counted twice otherwise, and one
 * that goes by when the count began, too. Callbacks that come before the snapshot is known are
 * logged. A callback that finds UNKNOWN does nothing: its rows are visible by then to any snapshot
 * of a count that begins later.
 *
 * Jobs that wait are counted by their second (core/due_seconds.h). Those that are far away are one
 * number, and known by the second before their time comes: the next part of the seconds is read in
 * the same way, with a snapshot of its own, while the number stays as it is. Of a callback that
 * comes after that part has been read, though its rows were seen, the number lacks what was taken
 * out of it for the part: it is added there. One that comes so late that yet another part
 * was read meanwhile nobody can place any more, and all is counted anew.
 */
#pragma once

#include "core/due_seconds.h"
#include "core/relaxed.h"
#include "engine/shared.h"

namespace pgq {

/* A snapshot as it is kept: of the transactions below xmax it does not see those in running. */
struct SeenBy
{
	uint64 xmax; /* with its epoch; 0: it sees none */
	int n;
	TransactionId *running; /* set when shared memory is made */

	bool sees(uint64 xid) const;
	void set(uint64 new_xmax, const TransactionId *new_running, int new_n);
	void forget() { xmax = 0; }
};

/* What a transaction has changed, or a part of it. */
struct CountDelta
{
	enum What : uint8
	{
		kLive,
		kDead,
		kDue,
	} what;
	int64 second; /* of kDue: when they become due */
	int64 n;	  /* more, or fewer */
};

/* What a count of the tables has found. */
struct FoundRows
{
	int64 live;
	int64 dead;
	int64
		unresolved; /* jobs of transactions that were prepared before the start, and may have ended */
	DueSeconds due;
};

/* Under the queue's lock, but for what is Relaxed. */
struct JobCount
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
		limited;   /* read racily by who enqueues: he is as one who came before that changed */
	uint32 serial; /* of the count; a count that was begun anew, or forgotten, has another */
	int64 live;
	int64 dead;
	int64
		unresolved; /* see FoundRows: they count in the depth; when one of them ends all is forgotten */
	int64 reserved;
	DueSeconds due;
	SeenBy whole; /* of the count */

	/* Of the next part of the seconds. */
	enum Part : uint8
	{
		kIdle,
		kPartLogging,
		kReading,
	} part_state;
	uint32 part_serial; /* as serial */
	SeenBy part;		/* the last one that was read, or (READING) is being read */
	SeenBy before;		/* the one before that */

	static constexpr int kLogMax = 64;
	struct
	{
		uint64 xid; /* with its epoch */
		CountDelta delta;
	} log[kLogMax];
	int logged; /* kLogMax + 1: one too many */
};

/* The slot is a new queue's. */
void init_count(JobCount &count, int64 max_depth);

/* The option is that from now on. */
void set_max_depth(JobCount &count, int64 max_depth);

/* The count is wrong, or may be. */
void forget_count(JobCount &count);

/* The queue has just been made, by this transaction: nobody has rows of it, and all that come will be told. */
void begin_empty(JobCount &count, TimestampTz now);

/* Of a transaction that has committed. */
void add_to_count(JobCount &count, uint64 xid, const CountDelta &delta);

/* May it matter to add_to_count? Asked without the lock, by a commit callback. */
inline bool
may_be_counted(const JobCount &count)
{
	return count.state != JobCount::kUnknown;
}

/* Jobs of which room is taken. Only when KNOWN. */
inline int64
depth_of(const JobCount &count)
{
	return count.live + count.unresolved + count.reserved;
}

/* Is not all known at that time? Somebody may just be counting, or have begun to. */
bool wants_count(const JobCount &count, TimestampTz now);

/* Should the next part of the seconds be known? */
bool wants_part(const JobCount &count, TimestampTz now);

/* Only if that is known: unless wants_count(). */
int64 waiting_of(const JobCount &count, TimestampTz now);

/*
 * ---- the count. Each of these but the first is false if it was forgotten, or begun anew ----
 * found: to be filled with what the snapshot sees.
 */

uint32 begin_count(JobCount &count, TimestampTz now, FoundRows *found);

/* False also if the log is full. running: at most running_max(). */
bool publish_snapshot(JobCount &count, uint32 serial, uint64 xmax, const TransactionId *running,
					  int n);
bool finish_count(JobCount &count, uint32 serial, const FoundRows &found);

/* ---- the same for the next part of the seconds. False also if there is nothing to be read ---- */

bool begin_part(JobCount &count, TimestampTz now, uint32 *serial, DueSeconds *found);
bool publish_part(JobCount &count, uint32 serial, uint64 xmax, const TransactionId *running, int n);
bool finish_part(JobCount &count, uint32 serial, const DueSeconds &found);

/* Transactions that can run at the same time, and the own one. */
int running_max();

/* Snapshots that each queue keeps. */
inline constexpr int kKeptSnapshots = 3;

} // namespace pgq
