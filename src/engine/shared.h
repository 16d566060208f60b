/*
 * Shared memory: its locks, its parts, and how much of each there is.
 *
 * It is made once, at server start, in the sizes that the settings say: slots of databases
 * (database.h) and of queues (queue.h), one table of leases (lease_entry.h), places in line of
 * waiters (waiter.h), watches of prepared transactions (watch.h), seats of schedulers (seat.h).
 *
 * Locks, in the order in which they may be taken:
 *   1. registry lock        which slot belongs to which database or queue; watches; notes of duties
 *   2. a queue's lock       everything of that queue and of its leases
 *   3. a lease partition    membership of the lease table (key -> entry)
 *      results lock         who waits for the end of a job
 *   4. locks lock           named locks, and who waits for one (named_lock.h)
 *      rates lock           named rates (named_rate.h)
 * Under any of them: no other kind of lock, no I/O, no allocation, no error, no
 * interrupt, no SetLatch (collect, release, then wake), and at most kHoldMax
 * entries a hold.
 *
 * Each struct says of its fields under which lock they are written and read. Those that somebody
 * reads without that lock are atomics, or Relaxed, and it says why that is good enough.
 *
 * Slots are reused.  Whoever keeps a pointer to one keeps its generation too and
 * compares under the lock; a lease is compared by its serial, which never repeats.
 */
#pragma once

#include "core/relaxed.h"
#include "pg/clock.h"
#include "pg/pg.h"

namespace pgq {

inline constexpr int kHoldMax = 256; /* entries handled in one hold of a lock */
inline constexpr int kNobody = -1;	 /* a my_procno() that is none */

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

struct Database;
struct Queue;
struct Seat;
struct Waiter;
struct Watch;
struct ResultWait;
struct ResultBucket;
struct GroupPool;
struct LockLines;
struct LockTable;
struct RateTable;

/* The addresses and sizes are set before there is any other process. The rest is read and written without a lock. */
struct Shared
{
	LWLock *registry_lock;
	LWLock *results_lock;
	LWLock *locks_lock;
	LWLock *rates_lock;
	int max_databases;
	int max_queues;
	int max_leases;
	Database *databases;
	Queue *queues;
	Waiter *waiters;			   /* max_claim_queues for each process */
	Seat *seats;				   /* one for each scheduler that can run: max_databases + 1 */
	Watch *watches;				   /* one for each prepared transaction there can be */
	ResultBucket *result_buckets;  /* waits for results by job */
	ResultWait *waits_for_results; /* one for each process */
	GroupPool *group_pool;
	LockLines *lock_lines;
	LockTable *named_locks;
	RateTable *named_rates;
	pg_atomic_uint64 *ended_jobs; /* see ended_jobs.h */
	pg_atomic_uint32 watched;	  /* watches that are active */
	pg_atomic_uint32 leases;	  /* entries in use */
	pg_atomic_uint32 common;	  /* those that are beyond a database's own share; see share.h */
	pg_atomic_uint32 common_peak; /* may lag behind */
	pg_atomic_uint32 reserve;	  /* leases that are charged to it; see share.h */
	pg_atomic_uint64 last_prefix; /* of lease tokens; see drawn() */
	pg_atomic_uint64 last_lock_token;	 /* see draw_lock_token() */
	pg_atomic_uint32 launcher;			 /* my_procno() + 1; 0: none */
	pg_atomic_uint32 announcements;		 /* CREATE EXTENSIONs committed: the launcher looks again */
	pg_atomic_uint32 missing_schedulers; /* for which the launcher has found no place */
	pg_atomic_uint32 starts;			 /* of schedulers */
	pg_atomic_uint64 starts_known_since; /* of jobs; monotonic, 0: not at all. See rate_limit.h */
};
static_assert(std::is_trivially_copyable_v<Shared> && std::is_standard_layout_v<Shared>);

extern Shared *shared;

/* GUCs of this module. */
extern int max_databases;
extern int max_queues;
extern int window_size;
extern int timer_size;
extern int max_leases;
extern int max_claim_queues;
extern int max_locks;
extern int max_rates;

int process_count();

/* Error 55000 with the fix unless the library was preloaded. */
void require_preloaded();

/* The server's functions read no atomic that is const. */
inline uint32
value_of(const pg_atomic_uint32 &atomic)
{
	return pg_atomic_read_u32(const_cast<pg_atomic_uint32 *>(&atomic));
}

inline uint64
value_of(const pg_atomic_uint64 &atomic)
{
	return pg_atomic_read_u64(const_cast<pg_atomic_uint64 *>(&atomic));
}

inline Latch *
latch_of(int procno)
{
	return &ProcGlobal->allProcs[procno].procLatch;
}

} // namespace pgq
