/*
 * The layout of shared memory.
 *
 * One registry of databases and queues, one table of leases, one pool of waiter
 * entries; all sized once, at server start, by GUCs.
 *
 * Locks, in the order in which they may be taken:
 *   1. registry lock        which slot belongs to which database or queue
 *   2. a queue's lock       everything of that queue and of its leases
 *   3. a lease partition    membership of the lease table (key -> entry)
 * Under any of them: no other kind of lock, no I/O, no allocation, no error, no
 * interrupt, no SetLatch (collect, release, then wake), and at most kHoldMax
 * entries a hold.
 *
 * Slots are reused.  Whoever keeps a pointer to one keeps its generation too and
 * compares under the lock; a lease is compared by its serial, which never repeats.
 */
#pragma once

#include "core/backoff.h"
#include "core/ring.h"
#include "core/schedule.h"
#include "core/token.h"
#include "engine/duty_note.h"
#include "pg/clock.h"
#include "pg/pg.h"

namespace pgq {

inline constexpr int kHoldMax = 256; /* entries handled in one hold of a lock */
inline constexpr int kLeasePartitions = 16;
inline constexpr int kQueueNameMax = 59;  /* bytes: "pgq_" + name is a channel of at most 63 */
inline constexpr int kWorkerNameMax = 63; /* bytes kept of a worker's label */
inline constexpr int kNobody = -1;		  /* a pgprocno that is none */
/* As a TimestampTz: where the clock of lease tokens begins. */
inline constexpr int64 kYear2020 = INT64CONST(7305) * USECS_PER_DAY;

/*
 * A slot that is dying has its next generation already, but is found by nobody;
 * it gets another one when it is used again.
 */
enum class SlotState : uint8
{
	kFree,
	kLoading, /* a database whose saved leases are being restored, by a process that cannot fail: found by nobody */
	kUsed,
	kDying,
};

/* What is known of a segment beside its rows; see worker/rotation.h. Read and written without a lock. */
struct SegmentNotes
{
	pg_atomic_uint64 empty_since; /* TimestampTz; 0: there may be rows in it that somebody wants */
	/* Since the database was loaded: */
	pg_atomic_uint64 truncations;
	pg_atomic_uint64 moved_in;
	pg_atomic_uint64 moved_out;
	char error[160]; /* of the last step, if it has raised; under the registry lock */
};

/* The segments of one table. Read and written without a lock. */
struct SegmentRing
{
	pg_atomic_uint32 current;	/* where new rows go, mostly: any other is as good */
	pg_atomic_uint32 survivors; /* where rows of drained segments go, or kNoSegment */
};

/* Its leases are counted here; see share.h. Read and written without a lock. */
struct LeaseShare
{
	pg_atomic_uint32 used;		/* but those in aside */
	pg_atomic_uint32 aside;		/* PARKED, charged to the common part */
	pg_atomic_uint32 aside_own; /* PARKED, in used */
	/* Since the server's start: */
	pg_atomic_uint32 peak; /* of all */
	pg_atomic_uint32 aside_peak;
};

struct Database
{
	/* Written under the registry lock (exclusive); read under it. */
	SlotState state;
	Oid oid;
	Oid incarnation; /* OID of pgq_ext.queue: differs after DROP and CREATE EXTENSION */
	pg_atomic_uint32 generation;
	int64 base_prefix;	  /* of lease tokens: from this load on none is smaller, before all were */
	TokenKey token_key;	  /* of their check bits */
	uint32 failed_checks; /* late acks of this load whose check bits were wrong */
	/* TimestampTz: no job that was due when it was enqueued has a run_at beyond it. Read and written without a lock. */
	pg_atomic_uint64 clock_mark;

	/* Read and written without a lock. */
	pg_atomic_uint32 scheduler;	   /* pgprocno + 1 of the scheduler; 0: none */
	pg_atomic_uint64 marked_token; /* the durable mark; no token above it is handed out */
	pg_atomic_uint64 reconciled;   /* rounds of the reconciler through all rows */
	LeaseShare share;
	DutyNote duties[kDuties]; /* see there */
	SegmentRing rings[kRings];
	SegmentNotes segments[kAllSegments]; /* by number */
};

/* Limits of options; the CHECKs of pgq_ext.queue say the same. A thousand years as the server compares intervals, 12 times 30 days. */
inline constexpr int64 kLeaseTimeMin = USECS_PER_SEC;
inline constexpr int64 kLeaseTimeMax = 7 * USECS_PER_DAY;
inline constexpr int64 kThousandYears = INT64CONST(1000) * 12 * DAYS_PER_MONTH * USECS_PER_DAY;

struct QueueOptions
{
	int64 lease_time;  /* microseconds */
	int64 max_runtime; /* microseconds; 0: no limit */
	int32 max_attempts;
	BackoffOptions backoff;
	bool notify;
	bool paused;

	bool operator==(const QueueOptions &) const = default;
};

/*
 * Since the queue was loaded; none of them counts what was rolled back. Always
 * handed_out = acked + failed + lost + uncounted + leases that are handed out.
 */
struct QueueCounters
{
	int64 enqueued;
	int64 handed_out;
	int64 acked;
	int64 failed;
	int64 lost;
	int64 uncounted; /* the row was gone, or no scheduler was there to count it */
	int64 dead;
	int64 repaired; /* forgotten jobs that the reconciler has found */
};

/* Everything below the lock pointer is protected by that lock. */
struct Queue
{
	LWLock *lock; /* set once, at start */

	pg_atomic_uint32 generation; /* read without the lock as a first check, decided under it */
	SlotState state;
	Database *database;
	uint32 database_generation;
	int32 queue_id;
	char name[kQueueNameMax + 1];
	QueueOptions options;

	Schedule schedule;

	TreeNode expiry;   /* header: leases that time can end, and LOST ones put off, by deadline */
	dlist_head leases; /* all leases of the queue */
	dlist_head parked; /* PARKED leases, in the order of their deadline */
	dlist_head
		lost; /* LOST leases to be counted now, in the order they were lost or have come back */
	dlist_head prepared; /* CLAIMED leases that a prepared transaction has used */
	int parked_count;
	int failing;	 /* LOST leases put off because they could not be counted */
	int64 served_at; /* monotonic: when the scheduler could last count lost leases, or found none */
	int leased;		 /* leases in state CLAIMED */
	uint64 next_serial; /* for the next lease; differs from those of all other queues */

	int64 recheck_at; /* monotonic; 0: never. Rows from these keys on are to be read again then */
	Key recheck_key;
	TimerKey recheck_timer_key;

	dlist_head waiters; /* see waiter.h */
	int waiting;
	int watcher; /* pgprocno of the waiter that watches the next timer, or kNobody */

	int holds; /* transactions that purge or drop the queue: nothing is popped */
	bool dropping;
	VirtualTransactionId dropper;
	VirtualTransactionId mover; /* the last transaction that took jobs in hand to move their rows */

	DutyNote duties[kQueueDuties];
	bool notify_pending;
	TimestampTz last_claim_at; /* 0: none since the queue was loaded */
	TimestampTz loaded_at;
	QueueCounters counters;
};

/* How a lease ends. */
enum class LeaseEnd : uint8
{
	kAcked,
	kFailed,
	kLost,
	kUncounted,	  /* the row was gone: nothing was written */
	kStillLost,	  /* not tried: the lease is lost as before */
	kLostBusy,	  /* the row was busy: lost, to be tried again soon */
	kLostFailing, /* the row could not be written: lost, to be tried again later and later */
	kMoved,		  /* its row was moved to another segment: the job itself has not changed */
};

/* What a prepared transaction will do to a lease. */
struct Prepared
{
	TransactionId xid; /* invalid: nothing; the lease is in queue->prepared otherwise */
	bool claimed;	   /* its claim is undone if it rolls back */
	bool ended;		   /* it ends, how and dead say so, if it commits */
	LeaseEnd how;
	bool dead;
};

enum class LeaseState : uint8
{
	kClaiming, /* popped; pgq_claim has not returned */
	kClaimed,  /* handed out */
	kParked,   /* nobody's: somebody's transaction is at the row; tried again at the deadline */
	kLost,	   /* nobody's: ended without an answer; the scheduler counts it in the row */
	kReaping,  /* the scheduler is rewriting the row */
};

/* Why a lease was lost. */
enum class Loss : uint8
{
	kUndone,	   /* its claim was rolled back */
	kExpired,	   /* by time */
	kUnreturnable, /* the claim could not return the job: its row is to blame */
};

struct LeaseKey
{
	uint32 database; /* slot number */
	uint32 generation;
	int64 job_id;
};

/* An entry of the lease table. Fields are protected by the queue's lock. */
struct Lease
{
	LeaseKey key;			 /* must be first; set under the partition lock */
	pg_atomic_uint64 serial; /* no other lease since the start had it; 0: the entry is free */
	pg_atomic_uint64 token;	 /* what its holder shows; other jobs' may be the same number */
	Queue *queue;
	TreeNode expiry;	 /* in queue->expiry iff CLAIMED and not pinned, or LOST and put off */
	dlist_node in_queue; /* in queue->leases */
	dlist_node in_line;	 /* in queue->parked, lost or prepared */
	Hint hint;			 /* the row: its key, and the version that was verified */
	Hint missed;		 /* if missed_count > 0: the first; see note_missed() */
	int64 deadline;		 /* monotonic */
	int64 handed_out_at; /* monotonic */
	TimestampTz claimed_at;
	TimestampTz expires_at; /* the deadline as a wall-clock time, for people */
	LeaseState state;
	uint8 missed_count; /* 2: more than one */
	Loss loss;			/* of a LOST or REAPING one */
	bool aside_common;	/* of a PARKED one: see share.h */
	bool put_off;		/* LOST, and not in queue->lost before the deadline */
	uint8 failures;		/* times in a row that its end could not be written */
	int32 pins;			/* open transactions that have used the lease (R4) */
	int32 attempt;
	int pid;
	VirtualTransactionId claimer; /* the open transaction that claimed it, or invalid */
	VirtualTransactionId ender;	  /* the open transaction that acked or failed it, or invalid */
	Prepared prepared;
	char worker[kWorkerNameMax + 1];
};

inline int64
token_of(const Lease *lease)
{
	return static_cast<int64>(pg_atomic_read_u64(const_cast<pg_atomic_uint64 *>(&lease->token)));
}

inline uint64
serial_of(const Lease *lease)
{
	return pg_atomic_read_u64(const_cast<pg_atomic_uint64 *>(&lease->serial));
}
static_assert(std::is_trivially_copyable_v<Lease> && std::is_standard_layout_v<Lease>);

/* A place in a queue's line of waiters. Protected by the lock of the queue it is in. */
struct Waiter
{
	dlist_node in_line;
	Queue *queue;
	uint32 queue_generation;
	int procno;
	enum State : uint8
	{
		kIdle,
		kListed,
		kWoken, /* taken off the line for a job; must take one or pass the wake-up on */
	} state;
};

/* What a prepared transaction did to a queue. */
struct Touched
{
	uint32 generation; /* of the queue's slot; 0: nothing */
	int32 queue_id;
	int64 enqueued; /* new jobs */
};

/*
 * A prepared transaction that matters to queues. COMMIT PREPARED tells nobody, so
 * it is watched. Protected by the registry lock.
 */
struct Watch
{
	enum State : uint8
	{
		kFree,
		kReserved, /* by a process in PRE_PREPARE */
		kListed,   /* active as soon as its database is */
		kActive,
		kResolving, /* by a process that cannot fail */
	} state;
	TransactionId xid;
	Oid database;
	bool all_queues;  /* it was prepared before this start: nobody knows what it did */
	bool unfiled;	  /* it has jobs of queues that had no slot */
	Touched *touched; /* for each queue slot */
};

/* See seat.h. Database and began are written by the launcher, before it starts the scheduler. */
struct Seat
{
	pg_atomic_uint64 said; /* number of the start and state of its scheduler */
	Oid database;
	int64 began; /* monotonic */
};

struct Shared
{
	LWLock *registry_lock;
	int max_databases;
	int max_queues;
	int max_leases;
	Database *databases;
	Queue *queues;
	Waiter *waiters;		  /* max_claim_queues for each process */
	Seat *seats;			  /* one for each scheduler that can run: max_databases + 1 */
	Watch *watches;			  /* one for each prepared transaction there can be */
	pg_atomic_uint32 watched; /* watches that are active */
	pg_atomic_uint32 leases;  /* entries in use */
	pg_atomic_uint32 common;  /* those that are beyond a database's own share; see share.h */
	pg_atomic_uint32 common_peak;
	pg_atomic_uint64 last_prefix;	/* of lease tokens; see drawn() */
	pg_atomic_uint32 launcher;		/* pgprocno + 1; 0: none */
	pg_atomic_uint32 announcements; /* CREATE EXTENSIONs committed: the launcher looks again */
	pg_atomic_uint32 starts;		/* of schedulers */
};

extern Shared *shared;

/* GUCs of this module. */
extern int max_databases;
extern int max_queues;
extern int window_size;
extern int timer_size;
extern int max_leases;
extern int max_claim_queues;

int seat_count();
int process_count();

/* Ask for shared memory and define the GUCs that size it. Called by _PG_init. */
void engine_init();

/* Error 55000 with the fix unless the library was preloaded. */
void require_preloaded();

inline Latch *
latch_of(int procno)
{
	return &ProcGlobal->allProcs[procno].procLatch;
}

} // namespace pgq
