/*
 * The slot of a database in shared memory, composed of parts.
 */
#pragma once

#include "core/steady_clock.h"
#include "core/token.h"
#include "engine/lease_quota.h"
#include "engine/quota.h"
#include "engine/ring_status.h"
#include "engine/shared.h"
#include "engine/told_jobs.h"

namespace pgq {

/*
 * Status of a duty of the scheduler, for the view pgq_ext.duty. Some duties serve the whole
 * database, others one queue each. Written only by the scheduler of the database, read by the view.
 * The status of a queue's duty is protected by the queue's lock, the status of another duty by the
 * registry lock.
 */
struct DutyStatus
{
	TimestampTz last_run_at;   /* 0: never */
	TimestampTz next_run_at;   /* 0: as soon as there is something to do */
	TimestampTz failing_since; /* 0: the last run was successful */
	int failures;			   /* number of errors since failing_since */
	char last_error[256];
};
static_assert(std::is_trivially_copyable_v<DutyStatus> && std::is_standard_layout_v<DutyStatus>);

/* Upper bounds for the number of duties of a database and of a queue. worker/scheduler_state.h lists them. */
inline constexpr int kDutyStatuses = 14;
inline constexpr int kQueueDutyStatuses = 5;

/*
 * Identity of the database. Written under the registry lock. Read under that lock, or without a
 * lock by two kinds of readers: the launcher, which looks again later, and processes that look for
 * queues of a database and compare generations afterwards. The generation is raised when the slot
 * is freed, and when the slot is used again.
 */
struct DatabaseIdentity
{
	Relaxed<SlotState> state;
	Relaxed<Oid> oid;
	Relaxed<Oid> incarnation; /* OID of pgq_ext.queue: differs after DROP and CREATE EXTENSION */
	pg_atomic_uint32 generation;
};

/* State of the lease tokens of one load. A load lasts as long as the database keeps this slot. */
struct DatabaseTokens
{
	/*
	 * The next three fields are written under the registry lock while the slot is LOADING, and read
	 * under that lock, or under the lock of a queue of this load.
	 */
	/*
	 * All tokens of this load have at least this prefix; all earlier tokens have a smaller prefix.
	 */
	int64 base_prefix;
	/*
	 * The durable token mark at the start of the load: an upper bound of all tokens handed out
	 * before.
	 */
	int64 mark_before;
	TokenKey token_key;
	/* Protected by the registry lock. */
	uint32 failed_checks; /* number of late acks with wrong check bits in this load */
	/* Atomic, no lock. */
	/* The durable token mark, or closed_mark() of it. No token above the mark is handed out. */
	pg_atomic_uint64 marked_token;
};

struct Database : DatabaseIdentity, DatabaseTokens, RingStatus
{
	/* Atomics, no lock. */
	pg_atomic_uint64 clock_mark; /* TimestampTz; see raise_clock_mark() */
	pg_atomic_uint32 scheduler;	 /* procno of the scheduler + 1; 0: none */
	/* number of complete passes of the reconciler over all rows */
	pg_atomic_uint64 reconciled;
	pg_atomic_uint32 definition_changes; /* raised when schedules or handlers are made or changed */
	/* State of the rows of named locks in memory; see sync/lock_load.h. */
	pg_atomic_uint32 locks_doubted; /* how often memory was found to lack rows; initially 1 */
	pg_atomic_uint32 locks_loaded;	/* value of locks_doubted when rows were last loaded */
	/* Not 0: a session waits for the entry of a lock whose time is over. */
	pg_atomic_uint32 sweep_wanted;
	/* Written by each claim, and so in other cache lines than the fields above, which each call reads. */
	alignas(kCacheLine) LeaseQuota share;
	Quota locks; /* protected by the locks lock */
	Quota rates; /* protected by the rates lock */
	/*
	 * The time (monotonic) from which on memory knows all permits that were taken; see
	 * named/named_rate.h. Written while the slot is LOADING, later under the rates lock.
	 */
	Relaxed<int64> rates_known_since;
	/* The scheduler's observations of the wall clock. Only the scheduler uses them. */
	SteadyClock clock;
	ChildWatch children;
	DutyStatus duties[kDutyStatuses]; /* status of the database's duties for the view duty */
};
static_assert(std::is_trivially_copyable_v<Database> && std::is_trivially_destructible_v<Database>);
static_assert(sizeof(Database) % kCacheLine == 0);

inline uint32
generation_of(const Database *db)
{
	return value_of(db->generation);
}

Size databases_size();
void place_databases(void *memory);

} // namespace pgq
