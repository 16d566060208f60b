/*
 * Watches: entries for prepared transactions that have touched queues. COMMIT PREPARED calls no
 * callback. So processes that depend on such a transaction look whether it has ended;
 * txn/prepared.cpp then applies its effects.
 *
 *     FREE --take_free_watch--> RESERVED --activate_watch--> ACTIVE
 *         --begin_resolving--> RESOLVING --free_watch--> FREE
 *     RESERVED --free_watch--> FREE         (not prepared after all)
 *     FREE --list_recovered--> LISTED --activate_listed--> ACTIVE
 *                                           (prepared before the database was attached)
 */
#pragma once

#include "engine/shared.h"

namespace pgq {

/* The changes of a prepared transaction to one queue. */
struct Touched
{
	/* generation of the queue's slot; 0: the transaction did nothing to the queue */
	uint32 generation;
	int32 queue_id;
	int64 enqueued;		/* new jobs */
	int64 deduplicated; /* number of enqueues that returned the id of an existing job */
	int64 rows;			/* new rows, by enqueue or SQL, minus rows that it has ended */
	int64 dead;			/* new dead letters, minus dead letters that it has removed */
	int64 reserved;		/* room for jobs that it has reserved */
	bool recount;		/* it has made changes that these fields cannot express */
	/*
	 * Jobs that it has added or changed, if there are any: the smallest key of those that are not delayed, and the
	 * latest of their times; the smallest key of the delayed ones.
	 */
	bool jobs;
	Key key;
	TimestampTz horizon;
	TimerKey timer_key;
	static constexpr int kDueMax = 8;
	int due_count;
	struct
	{
		int64 second;
		int64 n;
	} due[kDueMax]; /* for each second: jobs added that become due in it, minus such jobs ended */
};

struct Watch
{
	/* Protected by the registry lock. */
	enum State : uint8
	{
		kFree,
		kReserved, /* reserved by a process that is about to prepare (PRE_PREPARE) */
		kListed,   /* becomes active when its database is published */
		kActive,
		kResolving, /* a process is applying its outcome; that cannot fail */
	} state;
	TransactionId xid;
	Oid database;
	/*
	 * Written by the process that has reserved the entry, or under the registry lock. Read by the
	 * process that applies the outcome.
	 */
	bool all_queues; /* prepared before this start, so it is not known what it has changed */
	bool unfiled;	 /* has written jobs of queues that had no slot */
	bool deleted;	 /* has deleted jobs by SQL */
	bool uncounted;	 /* has changed rows for which no counts are stored here */
	bool schedules;	 /* has made or changed schedules */
	/*
	 * By queue slot. The address is set when shared memory is created; the entries are protected
	 * like the fields above.
	 */
	Touched *touched;
};
static_assert(std::is_trivially_copyable_v<Watch> && std::is_standard_layout_v<Watch>);

/* These functions take the registry lock themselves, unless their comment says otherwise. */
Watch *take_free_watch(); /* NULL: no entry is free */
void activate_watch(Watch *watch, Oid database, TransactionId xid);
void free_watch(Watch *watch);

/* Return the transaction of an ACTIVE entry; for other entries an invalid one. */
TransactionId watched_xid(const Watch *watch);

/*
 * Begin to resolve the entry. Return false if it belongs to another transaction by now, or if
 * another process has begun.
 */
bool begin_resolving(Watch *watch, TransactionId xid);

/* Return whether another process is resolving an entry at this moment. */
bool resolving_prepared();

inline bool
any_prepared()
{
	return pg_atomic_read_u32(&shared->watched) > 0;
}

/*
 * Store the transactions of the database that were prepared before this start and may still be
 * prepared. Return their number.
 */
int list_unknown(Oid database, TransactionId *xids);

/*
 * Called under the registry lock. can_watch() returns whether there are entries for all of these
 * transactions. list_recovered() makes a LISTED entry. activate_listed() makes all LISTED entries
 * of the database ACTIVE.
 */
bool can_watch(const TransactionId *prepared, int n);
void list_recovered(Oid database, TransactionId xid);
void activate_listed(Oid database);

Size watches_size();
void place_watches(void *memory);

} // namespace pgq
