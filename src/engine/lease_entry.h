/*
 * The struct of a lease in shared memory, and the lists of a queue's leases. lease.h has the states
 * and functions.
 */
#pragma once

#include "core/changed_rows.h"
#include "core/tree.h"
#include "engine/counters.h"
#include "engine/latency.h"
#include "engine/result_wait.h"
#include "engine/shared.h"

namespace pgq {

struct AsideQuota;

inline constexpr int kWorkerNameMax = 63; /* bytes of a worker's label that are kept */
inline constexpr int kHoldersMax =
	(kWorkerNameMax + 1) / static_cast<int>(sizeof(VirtualTransactionId));

/*
 * How often SQL has deleted or moved the row of a job, minus how often SQL has inserted the row
 * again. here: the row in the queue of the lease. at_all: the row in any queue. int8 is enough:
 * ids are unique in each segment, so a job has at most one row in each segment.
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
 * The changes that prepared transactions will make to a lease: claim_xid has claimed the job,
 * use_xid uses the lease, and row_xid has deleted or moved the row by SQL. The three may be the
 * same transaction. If any of the three is valid, the lease is in queue->prepared.
 */
struct Prepared
{
	/* The transaction that has claimed the job; its rollback undoes the claim. */
	TransactionId claim_xid;
	TransactionId use_xid;
	TransactionId row_xid;
	RowsGone gone; /* change of rows_gone if row_xid commits */
	bool ended;	   /* the lease ends if use_xid commits; `how` and `dead` say how */
	LeaseEnd how;
	bool dead;
	/*
	 * How the job ends if use_xid commits, for sessions that wait for the result. Used only if
	 * `how` is kLost.
	 */
	JobEnd told;

	bool cancels() const { return ended && is_by_id(how); }
	bool any() const
	{
		return TransactionIdIsValid(claim_xid) || TransactionIdIsValid(use_xid) ||
			   TransactionIdIsValid(row_xid);
	}
};

enum class LeaseState : uint8
{
	kClaiming, /* taken by a claim in progress, or by another transaction for a short use */
	kClaimed,  /* handed out */
	kParked,   /* set aside until the deadline: another transaction has locked the row */
	/* Ended without an answer of the worker. The scheduler will count the attempt in the row. */
	kLost,
	kReaping, /* the scheduler is rewriting the row */
	kHeld,	  /* held by open transactions that have met the job by its unique key; see held.h */
};

/* Why a lease was lost. */
enum class Loss : uint8
{
	kUndone,	   /* the claim was rolled back */
	kExpired,	   /* the deadline of the lease has passed */
	kUnreturnable, /* the claim could not return the job, because of an error in its row */
	kSessionEnded, /* the session to which the lease was bound has ended */
	kUndoneCancel, /* the worker was told of a cancel, and the cancel was rolled back */
};

struct LeaseKey
{
	uint32 database; /* number of the database's slot */
	uint32 generation;
	int64 job_id;
};

/*
 * An entry of the lease table. Making or removing an entry needs the lock of its queue and the lock
 * of its partition. A process that has found an entry through the table, or has kept its address,
 * may hold neither of the two locks. Such a process must take the lock of the queue that it
 * expects, and check that the entry is still the lease that it expects (is_lease_of()): first the
 * serial, then the queue, which is written before the serial.
 */
struct Lease
{
	/*
	 * Must be the first field. Written under the partition lock. Read under that lock, or under the
	 * lock of the queue if the caller knows that the lease belongs to this queue.
	 */
	LeaseKey key;
	/* Written under the queue's lock, read without a lock. */
	pg_atomic_uint64 serial; /* unique among all leases since the start; 0: the entry is free */
	/* The token that the worker passes back. Leases of different jobs may have equal tokens. */
	pg_atomic_uint64 token;
	Relaxed<uint16> segment; /* segment of the row when last seen; the row may have been moved */
	Relaxed<Queue *> queue;	 /* written under the queue's lock and the partition lock */

	/* All fields below: protected by the queue's lock. */
	/* node in queue->expiry, if the lease is CLAIMED and not pinned, or LOST and put off */
	TreeNode expiry;
	dlist_node in_queue; /* node in queue->leases */
	dlist_node in_line;	 /* node in queue->parked, lost or prepared */
	Hint hint;			 /* key and place of the row version that was last seen */
	Hint missed;		 /* the first remembered hint, if missed_count > 0; see note_missed() */
	/*
	 * Monotonic. For CLAIMED, PARKED and put-off leases: when that state ends. For other LOST
	 * leases: the time of the loss.
	 */
	int64 deadline;
	int64 handed_out_at; /* monotonic */
	int64 lease_time;	 /* last requested lease time, in microseconds; valid since CLAIMED */
	TimestampTz claimed_at;
	LeaseTimes times;
	TimestampTz expires_at; /* the deadline as a wall-clock time, only for views */
	LeaseState state;
	uint8 missed_count;	   /* number of remembered hints; 2 means two or more */
	bool missed_regrouped; /* if missed_count is 2: a hint has another group than `missed` */
	Loss loss;			   /* reason of a LOST, REAPING or doomed lease */
	/* The account to which a set-aside lease is charged (lease_quota.h); NULL: not set aside. */
	AsideQuota *aside;
	bool aside_common; /* a set-aside lease is charged to the common part */
	/* the lease is charged to the reserve, not to the database; see lease_quota.h */
	bool of_reserve;
	/* the lease is LOST, and is in the expiry tree until the deadline, instead of in queue->lost */
	bool put_off;
	uint8 failures; /* number of failed tries in a row to count the attempt of this LOST lease */
	/* for HELD: since when claims have found the job due (monotonic); 0: no claim has */
	int64 wanted;
	uint8 holders; /* for HELD: number of entries in `holder` */
	int32 pins;	   /* number of uses by open transactions (protocol: used-is-pinned) */
	int32 attempt;
	int pid;
	VirtualTransactionId claimer; /* the open transaction that has claimed the job; invalid: none */
	/* The open transaction that asserts or ends the lease; invalid: none. */
	VirtualTransactionId user;
	int32 uses;	 /* number of uses by `user` */
	bool ending; /* the user ends the lease at its commit */
	bool told;	 /* the worker was told that its lease is revoked */
	/*
	 * The job was handed out to a handler's worker, and no call with the job has begun. So no
	 * attempt is counted, however the lease ends (protocol: unbegun-is-uncounted).
	 */
	bool unbegun;
	/* Number of the last call of a handler with the job (handler_slot.h); 0: none. */
	Relaxed<uint64> call;
	bool with_others; /* that call has more jobs */
	bool doomed;	  /* becomes LOST, for the reason in `loss`, when its last use ends */
	/*
	 * For CLAIMED: the second in which the row becomes due; PG_INT64_MIN: the row is not delayed. A
	 * second in the future means that the clock was set back, or that SQL has changed the row.
	 */
	int64 waits_until;
	RowsGone rows_gone;
	bool session_bound;
	bool slot;		 /* the lease has a concurrency slot; see concurrency.h */
	Lease *lender;	 /* the lease from which this lease has its slot on loan; NULL: none */
	Lease *borrower; /* the lease to which this lease has lent its slot; NULL: none */
	int64 group;	 /* the group in which the lease counts as in work; 0: none; see group.h */
	uint32 counted;	 /* number of the last recount of groups that has counted this lease */
	int16 revoked;	 /* number of open transactions that cancel the job */
	Prepared prepared;
	union
	{
		char worker[kWorkerNameMax + 1];
		/* for HELD leases, which have no worker: the holders */
		VirtualTransactionId holder[kHoldersMax];
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
struct alignas(kCacheLine) LeaseLists
{
	/*
	 * Head of the expiry tree, ordered by deadline: leases that time can end, and LOST leases that
	 * were put off.
	 */
	TreeNode expiry;
	dlist_head leases; /* all leases of the queue */
	int entries;	   /* number of leases */
	dlist_head parked; /* PARKED leases, in the order in which they were parked */
	/* LOST leases whose attempts can be counted now, in the order in which they were added. */
	dlist_head lost;
	dlist_head prepared; /* CLAIMED or CLAIMING leases that a prepared transaction will change */
	int parked_count;
	int failing; /* number of LOST leases put off because counting them has failed */
	int leased;	 /* number of leases in state CLAIMED */
	/* number of CLAIMED leases whose jobs do not count as leased; see is_unheld() */
	int unheld;
	int64 latest_wait; /* upper bound of waits_until of all CLAIMED leases */
	int running;	   /* number of leases with a concurrency slot */
	int claiming;	   /* number of leases with a slot that are not handed out yet */
	/*
	 * true: some leases may not be counted in their group yet. Until all leases are counted, no job
	 * is claimed.
	 */
	bool uncounted;
	/*
	 * Number of the recount of groups. Leases that the present recount has counted are at the end
	 * of `leases`.
	 */
	uint32 counting;
	/*
	 * Serial of the next lease; differs from the serials of all other queues, and is never reset.
	 */
	uint64 next_serial;

	int64 recheck_at;	 /* when to read the rows of `recheck` again (monotonic); 0: never */
	ChangedRows recheck; /* unless recheck_at is 0 */
};

/* Initialize the lists for a queue that gets a slot, which has no leases yet. */
void init_leases(LeaseLists *lists);

} // namespace pgq
