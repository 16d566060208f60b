/*
 * Watches: prepared transactions that matter to queues. COMMIT PREPARED tells nobody, so whoever
 * may care looks whether they have ended; txn/prepared.cpp says what becomes of them then.
 *
 *     FREE --take_free_watch--> RESERVED --activate_watch--> ACTIVE --begin_resolving--> RESOLVING --free_watch--> FREE
 *                               RESERVED --free_watch--> FREE       (not prepared after all)
 *     FREE --list_recovered--> LISTED --activate_listed--> ACTIVE   (prepared before the database was attached)
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

/* What a prepared transaction did to a queue. */
struct Touched
{
	uint32 generation; /* of the queue's slot; 0: nothing */
	int32 queue_id;
	int64 enqueued;		/* new jobs */
	int64 deduplicated; /* enqueues that were answered with one that was there */
	int64 rows;			/* new ones, however they came, less those that it has ended */
	int64 dead;			/* dead letters, likewise */
	int64 reserved;		/* room for jobs that it has taken */
	bool recount;		/* it has done more than that, or than there is room for here */
	static constexpr int kDueMax = 8;
	int due_count;
	struct
	{
		int64 second;
		int64 n;
	} due[kDueMax]; /* how many jobs it has added that wait, less those that it has ended */
};

struct Watch
{
	/* Under the registry lock. */
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
	/* Written by the process that has reserved it, or under the registry lock; read by that which resolves it. */
	bool all_queues; /* it was prepared before this start: nobody knows what it did */
	bool unfiled;	 /* it has jobs of queues that had no slot */
	bool deleted;	 /* it has deleted jobs by hand */
	bool uncounted;	 /* it has changed rows that nobody has counted */
	bool schedules;	 /* it has made or changed some */
	/* The address: set when shared memory is made. What is there: as above. */
	Touched *touched; /* for each queue slot */
};
static_assert(std::is_trivially_copyable_v<Watch> && std::is_standard_layout_v<Watch>);

/* All of these take the registry lock themselves, but where it says so. */
Watch *take_free_watch(); /* NULL: none is free */
void activate_watch(Watch *watch, Oid database, TransactionId xid);
void free_watch(Watch *watch);

/* An active one's transaction, or an invalid one. */
TransactionId watched_xid(const Watch *watch);

/* False: it is another's by now, or somebody else has begun. */
bool begin_resolving(Watch *watch, TransactionId xid);

/* Is another process at it just now? */
bool resolving_prepared();

inline bool
any_prepared()
{
	return pg_atomic_read_u32(&shared->watched) > 0;
}

/* Transactions of the database that were prepared before this start, and that nobody knows to have ended. Returns how many. */
int list_unknown(Oid database, TransactionId *xids);

/* Under the registry lock, which the caller has: is there an entry for all of these? List one. The listed ones are active. */
bool can_watch(const TransactionId *prepared, int n);
void list_recovered(Oid database, TransactionId xid);
void activate_listed(Oid database);

Size watches_size();
void place_watches(void *memory);

} // namespace pgq
