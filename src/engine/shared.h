/*
 * Shared memory: its locks, its parts, and their sizes.
 *
 * Shared memory is created once, at server start, in the sizes that the settings say: slots of
 * databases (database.h) and of queues (queue.h), one table of leases (lease_entry.h), places in
 * the lines of waiters (waiter.h), entries for prepared transactions (prepared_entry.h), exit
 * statuses of schedulers (exit_status.h).
 *
 * Locks, in the order in which they may be taken:
 *
 *   1. registry lock        which slot belongs to which database or queue; entries of prepared
 *                           transactions; statuses of duties
 *   2. a queue's lock       everything of that queue and of its leases
 *   3. a lease partition    membership of the lease table (key -> entry)
 *      results lock         waits for the end of a job
 *   4. locks lock           named locks, and the lines of their waiters (named/named_lock.h)
 *      rates lock           named rates (named/named_rate.h)
 *      handlers lock        slots of handlers' workers (handler_slot.h)
 *      batches lock         batches that may get a callback (batch_watch.h)
 *
 * While a process holds any of them: no lock that is not in this list, no I/O, no allocation, no
 * error, no interrupt, no SetLatch (collect wake-ups, release the lock, then wake), and at most
 * kHoldMax entries in one hold. (Under the handlers lock a worker may be sent a signal: only the
 * lock says that the process still is that worker.)
 *
 * Each struct says under which lock its fields are written and read. A field that is read without
 * that lock is an atomic or Relaxed, and its comment says why an outdated value does no harm.
 *
 * Slots are reused. A process that keeps a pointer to a slot also keeps the slot's generation, and
 * compares it under the lock. A lease is compared by its serial, which never repeats.
 */
#pragma once

#include "core/relaxed.h"
#include "pg/clock.h"
#include "pg/pg.h"

namespace pgq {

inline constexpr int kHoldMax = 256; /* most entries that are handled in one hold of a lock */
inline constexpr int kNobody = -1;	 /* stands for "no process" where a procno is expected */

/*
 * State of a slot of a database or queue. A DYING slot has its next generation already, and no
 * search finds it. When the slot is used again, it gets one more generation.
 */
enum class SlotState : uint8
{
	kFree,
	/* Only of a database: a process is restoring the saved leases; no search finds the slot. */
	kLoading,
	kUsed,
	kDying,
};

struct Database;
struct Queue;
struct ExitStatus;
struct Waiter;
struct PreparedEntry;
struct ResultWait;
struct ResultBucket;
struct GroupPool;
struct LockLines;
struct LockTable;
struct RateTable;
struct HandlerSlots;
struct HandlerTicket;
struct BatchWatch;

/* Bytes that processors exchange at a time. The server aligns each part of shared memory to twice as many. */
inline constexpr size_t kCacheLine = 64;
static_assert(PG_CACHE_LINE_SIZE % kCacheLine == 0);

/*
 * The root of shared memory. Locks, addresses and sizes are set at the start of the server, before
 * any other process exists. The atomics are read and written without a lock.
 */
struct Shared
{
	LWLock *registry_lock;
	LWLock *results_lock;
	LWLock *locks_lock;
	LWLock *rates_lock;
	LWLock *handlers_lock;
	LWLock *batches_lock;
	int max_databases;
	int max_queues;
	int queues_peak; /* most queue slots in use at a time since the start; registry lock */
	int max_leases;
	Database *databases;
	Queue *queues;
	Waiter *waiters;				 /* max_claim_queues places for each process */
	ExitStatus *exit_statuses;		 /* an entry for each possible scheduler: max_databases + 1 */
	PreparedEntry *prepared_entries; /* an entry for each possible prepared transaction */
	ResultBucket *result_buckets;	 /* buckets of waits for results, by job */
	ResultWait *waits_for_results;	 /* an entry for each process */
	GroupPool *group_pool;
	LockLines *lock_lines;
	LockTable *named_locks;
	RateTable *named_rates;
	HandlerSlots *handlers;
	HandlerTicket *handler_tickets; /* at most kHoldMax */
	BatchWatch *batch_watch;
	pg_atomic_uint64 *ended_jobs; /* kEndedJobs words; see ended_jobs.h */
	pg_atomic_uint32 watched;	  /* number of ACTIVE entries in prepared_entries */
	pg_atomic_uint32 launcher;	  /* procno of the launcher + 1; 0: none */
	/*
	 * Number of commits after which a database may need a scheduler (CREATE EXTENSION, a new queue);
	 * when it changes, the launcher looks again.
	 */
	pg_atomic_uint32 announcements;
	/* Number of schedulers for which the launcher has found no free worker slot. */
	pg_atomic_uint32 missing_schedulers;
	pg_atomic_uint32 starts; /* number of starts of schedulers */
	/*
	 * The time (monotonic) before which jobs may have started that the rate limits do not count, for
	 * example jobs that another server has handed out. 0: not set yet; see rate_limit.h.
	 */
	pg_atomic_uint64 starts_known_since;
	/* As ChildWatch::rows_came_at, for rows of databases that had no slot. */
	pg_atomic_uint64 rows_came_at;

	/* Written by each claim, and so in other cache lines than the fields above, which each call reads. */
	alignas(kCacheLine) pg_atomic_uint32 leases; /* leases in use */
	pg_atomic_uint32 common; /* leases charged to the common part; see lease_quota.h */
	/* highest value of `common` since the start; may be a little outdated */
	pg_atomic_uint32 common_peak;
	pg_atomic_uint32 reserve;		  /* leases charged to the reserve; see lease_quota.h */
	pg_atomic_uint64 last_prefix;	  /* last prefix of lease tokens; see drawn() */
	pg_atomic_uint64 last_lock_token; /* last token drawn for a named lock; see draw_lock_token() */
};
static_assert(std::is_trivially_copyable_v<Shared> && std::is_standard_layout_v<Shared>);

extern Shared *shared;

/* Settings of the extension that determine sizes. */
extern int max_databases;
extern int max_queues;
extern int window_size;
extern int timer_size;
extern int max_leases;
extern int max_claim_queues;
extern int max_locks;
extern int max_rates;
extern int max_handler_workers;
extern int max_watched_batches;

int process_count();

/* Raise error 55000, with a hint, unless the library was preloaded. */
void require_preloaded();

/* Read a const atomic: the server's functions do not accept a const pointer. */
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
