/*
 * The struct of a lease in shared memory, and the lists of a queue's leases. lease.h has the states
 * and functions.
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

inline constexpr int kWorkerNameMax = 63; /* bytes of a worker's label that are kept */
inline constexpr int kHoldersMax =
	(kWorkerNameMax + 1) / static_cast<int>(sizeof(VirtualTransactionId));

/*
 * How often SQL has deleted or moved the row of a job, less how often SQL has put it back. here:
 * from the queue of the lease. at_all: from the table. Small numbers, since ids are unique in each
 * segment.
 */
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
 * What prepared transactions will do to a lease. One may have claimed it, one may use it, and one
 * may have deleted or moved its row by SQL; these may be the same transaction. If there is any, the
 * lease is in queue->prepared.
 */
struct Prepared
{
	/* The transaction that has claimed it; its rollback undoes the claim. */
	TransactionId claim_xid;
	TransactionId use_xid;
	TransactionId row_xid;
	RowsGone gone; /* how far the row is gone if row_xid commits */
	bool ended;	   /* the lease ends if use_xid commits, in the way of `how` and `dead` */
	LeaseEnd how;
	bool dead;
	/* The end of the job to tell waiters at that commit, where `how` does not say it. */
	JobEnd told;

	bool cancels() const { return ended && how == LeaseEnd::kCancelled; }
	bool any() const
	{
		return TransactionIdIsValid(claim_xid) || TransactionIdIsValid(use_xid) ||
			   TransactionIdIsValid(row_xid);
	}
};

enum class LeaseState : uint8
{
	kClaiming, /* taken by a claim that has not returned, or for another short use */
	kClaimed,  /* handed out */
	kParked,   /* set aside: another transaction is at the row; tried again at the deadline */
	/* Ended without an answer of the worker; the scheduler counts the attempt in the row. */
	kLost,
	kReaping, /* the scheduler is rewriting the row */
	kHeld,	  /* open transactions have met the job by its unique key; see held.h */
};

/* Why a lease was lost. */
enum class Loss : uint8
{
	kUndone,	   /* its claim was rolled back */
	kExpired,	   /* its deadline has passed */
	kUnreturnable, /* the claim could not return the job, because of its row */
	kSessionEnded, /* the session ended to which the lease was bound */
	kUndoneCancel, /* the worker was told of a cancel that was then rolled back */
};

struct LeaseKey
{
	uint32 database; /* number of the database's slot */
	uint32 generation;
	int64 job_id;
};

/*
 * An entry of the lease table. It is made and removed under the lock of its queue and the lock of
 * its partition. A process that has found an entry through the table, or has kept its address,
 * holds neither lock. It must take the lock of the queue that it expects, and check that the entry
 * is still that lease (is_lease_of()): first the serial, then the queue, which is written before
 * the serial.
 */
struct Lease
{
	/*
	 * Must be the first field. Written under the partition lock. Read under that lock, or under the
	 * lock of the queue if the lease is known to belong to it.
	 */
	LeaseKey key;
	/* Written under the queue's lock, read without a lock. */
	pg_atomic_uint64 serial; /* not used by any other lease since the start; 0: the entry is free */
	/* The lease token that the worker shows; tokens of other jobs may be equal. */
	pg_atomic_uint64 token;
	Relaxed<uint16> segment; /* segment of the row; a guess, since the row may have been moved */
	Relaxed<Queue *> queue;	 /* written under both locks */

	/* All fields below: protected by the queue's lock. */
	TreeNode expiry;	 /* node in queue->expiry, if CLAIMED and not pinned, or LOST and put off */
	dlist_node in_queue; /* node in queue->leases */
	dlist_node in_line;	 /* node in queue->parked, lost or prepared */
	Hint hint;			 /* the row: its key, and the version that was last looked at */
	Hint missed;		 /* the first remembered hint, if missed_count > 0; see note_missed() */
	int64 deadline;		 /* monotonic */
	int64 handed_out_at; /* monotonic */
	int64 lease_time;	 /* length last asked for, in microseconds; valid since CLAIMED */
	TimestampTz claimed_at;
	LeaseTimes times;
	TimestampTz expires_at; /* the deadline as a wall-clock time, only to be shown */
	LeaseState state;
	uint8 missed_count; /* number of remembered hints; 2: two or more */
	Loss loss;			/* reason of a LOST, REAPING or doomed lease */
	/* The kind of set-aside lease as which it is charged (share.h); NULL: not set aside. */
	AsideShare *aside;
	bool aside_common; /* if set aside: charged to the common part */
	bool of_reserve;   /* charged to the reserve, not to the database; see share.h */
	bool put_off;	   /* LOST, and in the expiry tree instead of queue->lost until the deadline */
	uint8 failures;	   /* how often in a row its end could not be written */
	int64 wanted;	   /* for HELD: since when claims want the job (monotonic); 0: none does */
	uint8 holders;	   /* for HELD: number of entries in holder */
	int32 pins;		   /* uses by open transactions (protocol: used-is-pinned) */
	int32 attempt;
	int pid;
	VirtualTransactionId claimer; /* the open transaction that claimed the lease, or invalid */
	/* The open transaction that asserts or ends the lease, or invalid. */
	VirtualTransactionId user;
	int32 uses;	 /* number of uses by `user` */
	bool ending; /* the user ends the lease at its commit */
	bool told;	 /* the worker was told that the lease is revoked */
	bool doomed; /* becomes LOST, for the reason `loss`, when its last use ends */
	/*
	 * For CLAIMED: the second in which the row becomes due; PG_INT64_MIN: the row is not delayed. A
	 * later second than now means that the clock was set back, or that SQL has changed the row.
	 */
	int64 waits_until;
	RowsGone rows_gone;
	bool session_bound;
	bool slot;		 /* has a concurrency slot; see concurrency.h */
	Lease *lender;	 /* the lease that has lent its slot to this one; NULL: none */
	Lease *borrower; /* the lease to which this one has lent its slot; NULL: none */
	int64 group;	 /* the group in which the lease counts as running; 0: none; see group.h */
	uint32 counted;	 /* number of the queue's last recount of groups that has seen this lease */
	int16 revoked;	 /* number of open transactions that cancel the job */
	Prepared prepared;
	union
	{
		char worker[kWorkerNameMax + 1];
		VirtualTransactionId holder[kHoldersMax]; /* for HELD, when there is no worker */
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

/* The leases of a queue. Protected by the queue's lock. */
struct LeaseLists
{
	/*
	 * Head of the expiry tree, by deadline: leases that time can end, and LOST leases that were put
	 * off.
	 */
	TreeNode expiry;
	dlist_head leases; /* all leases of the queue */
	int entries;	   /* number of leases */
	dlist_head parked; /* PARKED leases, in the order in which they were parked */
	/* LOST leases whose failed attempts can be counted now, in the order in which they got here. */
	dlist_head lost;
	dlist_head prepared; /* CLAIMED or CLAIMING leases that a prepared transaction has used */
	int parked_count;
	int failing;	   /* LOST leases put off because they could not be counted */
	int leased;		   /* leases in state CLAIMED */
	int unheld;		   /* CLAIMED leases by which no job counts as leased; see is_unheld() */
	int64 latest_wait; /* no CLAIMED lease has a waits_until later than this second */
	int running;	   /* leases with a concurrency slot */
	int claiming;	   /* of these the leases that are not handed out yet */
	/* Some leases may not count in their group yet; nothing is claimed until they do. */
	bool uncounted;
	/*
	 * Number of recounts of groups; the leases that the present one has seen are at the end of
	 * `leases`.
	 */
	uint32 counting;
	/* Serial of the next lease; differs from all serials of other queues, and is never reset. */
	uint64 next_serial;

	/* When rows from the following keys on are to be read again (monotonic); 0: never. */
	int64 recheck_at;
	Key recheck_key;
	TimerKey recheck_timer_key;
};

/* Initialize the lists for a queue that gets a slot. The slot has no leases. */
void init_leases(LeaseLists *lists);

} // namespace pgq
