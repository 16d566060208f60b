/*
 * The slot of a database: parts that belong to those who use them.
 */
#pragma once

#include "core/steady_clock.h"
#include "core/token.h"
#include "engine/duty_note.h"
#include "engine/quota.h"
#include "engine/ring_notes.h"
#include "engine/share.h"
#include "engine/shared.h"

namespace pgq {

/*
 * Which database it is. Written under the registry lock. Read under it, or racily: by the launcher, which
 * comes again, and by those who look for queues of a database, and compare generations after. The
 * generation is raised when the slot is freed and when it is used again.
 */
struct DatabaseIdentity
{
	Relaxed<SlotState> state;
	Relaxed<Oid> oid;
	Relaxed<Oid> incarnation; /* OID of pgq_ext.queue: differs after DROP and CREATE EXTENSION */
	pg_atomic_uint32 generation;
};

/* Of the lease tokens of one load. */
struct DatabaseTokens
{
	/* Written under the registry lock while the slot is LOADING. Read under it, or under the lock of a queue of this load. */
	int64 base_prefix; /* from this load on none is smaller, before all were */
	int64
		mark_before; /* the durable mark at its start: no token that was handed out before is above it */
	TokenKey token_key;
	/* Under the registry lock. */
	uint32 failed_checks; /* late acks of this load whose check bits were wrong */
	/* Without a lock. */
	pg_atomic_uint64
		marked_token; /* the durable mark, or that, closed; no token above it is handed out */
};

struct Database : DatabaseIdentity, DatabaseTokens, RingNotes
{
	/* Without a lock. */
	pg_atomic_uint64 clock_mark;	   /* TimestampTz; see raise_clock_mark() */
	pg_atomic_uint32 scheduler;		   /* my_procno() + 1 of the scheduler; 0: none */
	pg_atomic_uint64 reconciled;	   /* rounds of the reconciler through all rows */
	pg_atomic_uint32 schedule_changes; /* raised when schedules have been made or changed */
	/* Rows of named locks; see sync/lock_load.h. */
	pg_atomic_uint32 locks_doubted; /* how often; 1 in the beginning */
	pg_atomic_uint32 locks_loaded;	/* as of which of these they are in memory */
	pg_atomic_uint32 sweep_wanted;	/* somebody waits for the entry of a lock whose time is over */
	LeaseShare share;
	Quota locks; /* under the locks lock */
	Quota rates; /* under the rates lock */
	Relaxed<int64>
		rates_known_since; /* monotonic; written before the slot is used, then under the rates lock */
	/* By the scheduler alone, but for the next one: what it has seen of the wall clock. */
	SteadyClock clock;
	DutyNote duties[kDutyNotes]; /* see there */
};
static_assert(std::is_trivially_copyable_v<Database> && std::is_trivially_destructible_v<Database>);

inline uint32
generation_of(const Database *db)
{
	return value_of(db->generation);
}

Size databases_size();
void place_databases(void *memory);

} // namespace pgq
