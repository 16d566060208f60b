/*
 * A lease as it lies in shared memory, and the lists of a queue's leases; lease.h says what
 * becomes of them.
 */
#pragma once

#include "core/key.h"
#include "core/tree.h"
#include "engine/counters.h"
#include "engine/latency.h"
#include "engine/result_wait.h"
#include "engine/shared.h"

namespace pgq {

struct AsideShare;

inline constexpr int kWorkerNameMax = 63; /* bytes kept of a worker's label */
inline constexpr int kHoldersMax =
	(kWorkerNameMax + 1) / static_cast<int>(sizeof(VirtualTransactionId));

/* How often SQL took the row of a job away, less how often SQL put it back: from the lease's queue, and from the table. */
struct RowsGone
{
	int8 here;
	int8 at_all;

	void add(const RowsGone &more)
	{
		here = static_cast<int8>(here + more.here);
		at_all = static_cast<int8>(at_all + more.at_all);
	}
};

/*
 * What prepared transactions will do to a lease: one has claimed it, one uses it, and one has deleted or moved its row by
 * hand; they may be the same. The lease is in queue->prepared if there is any.
 */
struct Prepared
{
	TransactionId claim_xid; /* its claim is undone if that rolls back */
	TransactionId use_xid;
	TransactionId row_xid;
	RowsGone gone; /* if that commits */
	bool ended;	   /* if that commits the lease ends; how and dead say how */
	LeaseEnd how;
	bool dead;
	JobEnd told; /* at that commit, where how does not say it: the end of the job */

	bool cancels() const { return ended && how == LeaseEnd::kCancelled; }
	bool any() const
	{
		return TransactionIdIsValid(claim_xid) || TransactionIdIsValid(use_xid) ||
			   TransactionIdIsValid(row_xid);
	}
};

enum class LeaseState : uint8
{
	kClaiming, /* popped; pgq_claim has not returned */
	kClaimed,  /* handed out */
	kParked,   /* nobody's: somebody's transaction is at the row; tried again at the deadline */
	kLost,	   /* nobody's: ended without an answer; the scheduler counts it in the row */
	kReaping,  /* the scheduler is rewriting the row */
	kHeld,	   /* nobody's: open transactions have enqueued the job once more; see held.h */
};

/* Why a lease was lost. */
enum class Loss : uint8
{
	kUndone,	   /* its claim was rolled back */
	kExpired,	   /* by time */
	kUnreturnable, /* the claim could not return the job: its row is to blame */
	kSessionEnded, /* that of its worker, to which it was bound */
	kUndoneCancel, /* its worker was told that it is cancelled, which was rolled back */
};

struct LeaseKey
{
	uint32 database; /* slot number */
	uint32 generation;
	int64 job_id;
};

/*
 * An entry of the lease table.  It comes and goes under the lock of its queue and that of its
 * partition.  Who finds it through the table, or has kept its address, holds neither, and must
 * learn under the lock of the queue he thinks it to be of whether it is (is_lease_of()): by the
 * serial first, then by the queue, which is written before.
 */
struct Lease
{
	LeaseKey
		key; /* must be first. Under the partition lock; read under the queue's too, once it is known to be of it */
	/* Written under the queue's lock, read without any. */
	pg_atomic_uint64 serial; /* no other lease since the start had it; 0: the entry is free */
	pg_atomic_uint64 token;	 /* what its holder shows; other jobs' may be the same number */
	Relaxed<uint16> segment; /* the row's, mostly: for a guess */
	Relaxed<Queue *> queue;	 /* under both locks */

	/* All that follows: under the queue's lock. */
	TreeNode expiry;	 /* in queue->expiry iff CLAIMED and not pinned, or LOST and put off */
	dlist_node in_queue; /* in queue->leases */
	dlist_node in_line;	 /* in queue->parked, lost or prepared */
	Hint hint;			 /* the row: its key, and the version that was verified */
	Hint missed;		 /* if missed_count > 0: the first; see note_missed() */
	int64 deadline;		 /* monotonic */
	int64 handed_out_at; /* monotonic */
	int64 lease_time;	 /* length last asked for, in microseconds, since it is CLAIMED */
	TimestampTz claimed_at;
	LeaseTimes times;
	TimestampTz expires_at; /* the deadline as a wall-clock time, for people */
	LeaseState state;
	uint8 missed_count; /* 2: more than one */
	Loss loss;			/* of a LOST or REAPING one */
	AsideShare *aside;	/* it is set aside, as one of that kind: see share.h; or NULL */
	bool aside_common;	/* ... charged to the common part */
	bool of_reserve;	/* charged to the reserve, not to the database: see share.h */
	bool put_off;		/* LOST, and not in queue->lost before the deadline */
	uint8 failures;		/* times in a row that its end could not be written */
	int64 wanted;		/* of a HELD one: since when claims want the job (monotonic), or 0 */
	uint8 holders;		/* of a HELD one: how many there are in holder */
	int32 pins;			/* open transactions that have used the lease (protocol: used-is-pinned) */
	int32 attempt;
	int pid;
	VirtualTransactionId claimer; /* the open transaction that claimed it, or invalid */
	VirtualTransactionId user;	  /* the open transaction that asserts or ends it, or invalid */
	int32 uses;					  /* how often it does */
	bool ending;				  /* ... and it ends it when it commits */
	bool told;					  /* its worker has heard that it is revoked */
	bool doomed;				  /* it is lost, for that loss, as soon as nobody uses it */
	int64
		waits_until; /* of a CLAIMED one: second in which its row becomes due, if that is ahead after all */
	RowsGone rows_gone;
	bool session_bound;
	bool slot;		 /* counts as running: see concurrency.h */
	Lease *lender;	 /* that had the slot, and gets it back if this one is undone; or NULL */
	Lease *borrower; /* to which it has gone; or NULL */
	int64 group;	 /* in which it counts as running, or 0: see group.h */
	uint32 counted;	 /* of its queue's countings the last one that has seen it */
	int16 revoked;	 /* open transactions that cancel its job */
	Prepared prepared;
	union
	{
		char worker[kWorkerNameMax + 1];
		VirtualTransactionId holder[kHoldersMax]; /* of a HELD one, which has no worker */
	};
};
static_assert(std::is_trivially_copyable_v<Lease> && std::is_standard_layout_v<Lease>);

inline int64
token_of(const Lease *lease)
{
	return static_cast<int64>(value_of(lease->token));
}

inline uint64
serial_of(const Lease *lease)
{
	return value_of(lease->serial);
}

/* A queue's leases. Under its lock. */
struct LeaseLists
{
	TreeNode expiry;   /* header: leases that time can end, and LOST ones put off, by deadline */
	dlist_head leases; /* all leases of the queue */
	int entries;	   /* how many they are */
	dlist_head parked; /* PARKED leases, in the order of their deadline */
	dlist_head
		lost; /* LOST leases to be counted now, in the order they were lost or have come back */
	dlist_head prepared; /* CLAIMED or CLAIMING leases that a prepared transaction has used */
	int parked_count;
	int failing;	   /* LOST leases put off because they could not be counted */
	int leased;		   /* leases in state CLAIMED */
	int unheld;		   /* those of them by which nobody has a job: see is_unheld() */
	int64 latest_wait; /* no CLAIMED one has a row that becomes due later: in seconds */
	int running;	   /* leases with a slot */
	int claiming;	   /* those of them that are not handed out yet */
	bool uncounted;	   /* some may not count in their group yet: until then nothing is claimed */
	uint32
		counting; /* how often that was so; those that have been seen since are at the end of leases */
	uint64
		next_serial; /* for the next lease; differs from those of all other queues, never starts again */

	int64 recheck_at; /* monotonic; 0: never. Rows from these keys on are to be read again then */
	Key recheck_key;
	TimerKey recheck_timer_key;
};

/* Of a queue that comes into a slot, whose leases have all ended. */
void init_leases(LeaseLists *lists);

} // namespace pgq
