/*
 * Entries for prepared transactions that have used queues. COMMIT PREPARED calls no callback. So
 * processes that depend on a prepared transaction check whether the transaction has ended;
 * txn/prepared_end.cpp then applies or undoes the effects of the transaction.
 *
 *     FREE --take_free_entry--> RESERVED --activate_entry--> ACTIVE
 *         --begin_resolving--> RESOLVING --free_entry--> FREE
 *     RESERVED --free_entry--> FREE         (not prepared after all)
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
	int64 enqueued;		 /* number of new jobs */
	int64 deduplicated;	 /* number of enqueues that returned the id of an existing job */
	int64 rows;			 /* new rows, by enqueue or SQL, minus rows that were ended */
	int64 dead;			 /* new dead letters, minus dead letters that were removed */
	int64 reserved;		 /* number of jobs for which the transaction has reserved room */
	bool recount;		 /* the transaction has made changes that the other fields cannot express */
	bool jobs;			 /* the transaction has added or changed jobs */
	ChangedRows changed; /* if jobs: the rows of these jobs */
	static constexpr int kDueMax = 8;
	int due_count;
	struct
	{
		int64 second;
		int64 n;
	} due[kDueMax]; /* for each second: jobs that become due in it, added minus ended */
};

struct PreparedEntry
{
	/* Protected by the registry lock. */
	enum State : uint8
	{
		kFree,
		kReserved,	/* reserved by a process that is about to prepare (PRE_PREPARE) */
		kListed,	/* becomes active when its database is published */
		kActive,	/* the outcome of the transaction is not known yet, or not applied yet */
		kResolving, /* a process is applying the outcome, which cannot fail */
	} state;
	TransactionId xid;
	Oid database;
	/*
	 * The fields from here on are written by the process that has reserved the entry, or under the
	 * registry lock. The process that applies the outcome reads these fields.
	 */
	/*
	 * the transaction may have changed queues without a record in `touched`, because it was
	 * prepared before this start, or because a slot has got another queue
	 */
	bool all_queues;
	bool unfiled;	  /* the transaction has written jobs of queues that had no slot */
	bool deleted;	  /* the transaction has deleted jobs by SQL, or has early effects */
	bool uncounted;	  /* the transaction has changed rows for which no counts are stored here */
	bool definitions; /* the transaction has made or changed schedules or handlers */
	bool
		batches; /* the transaction has added members to batches, ended members, or changed a batch */
	bool children; /* the transaction has enqueued children, or ended parents */
	/*
	 * the changes to each queue, by queue slot. The address is set when shared memory is created. The
	 * changes are protected like the fields above.
	 */
	Touched *touched;
};
static_assert(std::is_trivially_copyable_v<PreparedEntry> &&
			  std::is_standard_layout_v<PreparedEntry>);

/* These functions take the registry lock themselves, unless their comment says otherwise. */
PreparedEntry *take_free_entry(); /* NULL: no entry is free */
void activate_entry(PreparedEntry *entry, Oid database, TransactionId xid);
void free_entry(PreparedEntry *entry);

/* Return the transaction of an ACTIVE entry; for other entries InvalidTransactionId. */
TransactionId xid_of_entry(const PreparedEntry *entry);

/*
 * Begin to apply the outcome of the entry's transaction. Return false if the entry belongs to
 * another transaction by now, or if another process has begun to apply the outcome.
 */
bool begin_resolving(PreparedEntry *entry, TransactionId xid);

/* Return whether another process is applying the outcome of an entry at this moment. */
bool resolving_prepared();

inline bool
any_prepared()
{
	return pg_atomic_read_u32(&shared->watched) > 0;
}

/*
 * Store the ids of the database's transactions that may still be prepared and whose changes are not all
 * recorded (all_queues). Return the number of ids.
 */
int list_unknown(Oid database, TransactionId *xids);

/*
 * Called under the registry lock. has_free_entries() returns whether there are free entries for all
 * of the n transactions. list_recovered() makes an entry for a transaction that was prepared before
 * this start. The state of the entry is kListed until activate_listed() sets the state of all such
 * entries of the database to kActive.
 */
bool has_free_entries(const TransactionId *prepared, int n);
void list_recovered(Oid database, TransactionId xid);
void activate_listed(Oid database);

Size prepared_entries_size();
void place_prepared_entries(void *memory);

} // namespace pgq
