/*
 * The registry: which slot of shared memory belongs to which database and queue.
 *
 * A slot is attached from a row that is committed, or that was written by the same transaction.
 * Leases and session-bound locks exist only in memory, and end when the slot is freed. A slot of a
 * queue is freed when the drop of the queue was committed, or its creation undone. The slot of a
 * database is freed when the database or the incarnation of the extension is known to be gone:
 * incarnations.md.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/* Return the transaction that is dropping the queue, or an invalid id if there is none. */
VirtualTransactionId dropper_of(const QueueRef &ref);

/* The contents of a row of pgq_ext.queue. */
struct QueueRow
{
	int32 queue_id;
	char name[kQueueNameMax + 1];
	QueueOptions options;
	bool ours; /* this transaction has written the row */
};

/* The durable state of lease tokens: see catalog/token_mark.h and catalog/token_key.h. */
struct DurableTokens
{
	int64 mark;
	TokenKey key;
};

/*
 * Take a slot for this database; NULL: all slots are taken. Raises 53400 if there are not enough
 * entries for the prepared transactions. The slot is LOADING, so no search finds it before
 * publish_database(). prepared: the prepared transactions of the database, which the caller has
 * listed before. Their entries become ACTIVE when the slot is published. Only one process may
 * attach a database at a time: see tables() in load/attach.cpp.
 */
Database *attach_database(Oid oid, Oid incarnation, const DurableTokens &tokens,
						  const TransactionId *prepared, int n);

/* Make a LOADING slot usable. Cannot fail. */
void publish_database(Database *db);

/* Return the slot of that incarnation; NULL: none. */
Database *find_database(Oid oid, Oid incarnation);

/*
 * Data to verify a late ack: see DatabaseTokens. If the slot has another generation by now, all
 * values are 0, below every token.
 */
struct Load
{
	int64 base_prefix;
	int64 mark_before;
	TokenKey key;
	uint32 failed_checks;
};
Load read_load(const Database *db, uint32 generation);

/* Count a late ack with wrong check bits. Return the number of such acks in this load. */
uint32 note_failed_check(Database *db, uint32 generation);

/*
 * Return the slot of the queue. If the queue has no slot, attach a slot; raise 53400 if all slots
 * are taken.
 */
QueueRef attach_queue(Database *db, uint32 db_generation, const QueueRow &row);

/*
 * Like attach_queue(), but return false if all slots are taken, or if the slot of the database has
 * another generation.
 */
bool try_attach_queue(Database *db, uint32 db_generation, const QueueRow &row, QueueRef *ref);

/* Find the slot of the queue. Return false if the queue has no slot. */
bool find_attached_queue(const Database *db, int32 queue_id, QueueRef *ref);

/*
 * Rename the queue. Backends that have cached the old name notice that and read the row again. No
 * effect if ref is not current. Cannot fail.
 */
void rename_slot(const QueueRef &ref, const char *name);

/* is_like() returns whether the slot has the name and options of the row; make_like() sets them. */
bool is_like(const QueueRef &ref, const QueueRow &row);
void make_like(const QueueRef &ref, const QueueRow &row);

/*
 * A slot in use at one moment. A caller notes the slots first, and then checks whether their
 * databases or incarnations are gone. If a slot was used again after the note, it has another
 * generation, and is not freed.
 */
struct SlotNote
{
	Database *database;
	uint32 generation;
	Oid oid;
	Oid incarnation;
};

/* Note all slots in use. Return their number, at most max_databases. */
int note_slots(SlotNote *notes);

/*
 * Queries of the launcher about a database, with any incarnation of the extension: whether it has a
 * slot, a queue in use, a running scheduler. The functions read without a lock, so answers may be
 * outdated; the launcher asks again.
 */
bool is_attached(Oid oid);
bool has_queues(Oid oid);
bool has_scheduler(Oid oid);

/* Free the slot of the queue, with all its leases. No effect if ref is not current. Cannot fail. */
void free_queue(const QueueRef &ref);

/*
 * Free the slot of the database, with its queues and their leases. No effect if the slot has
 * another generation.
 */
void free_database(Database *db, uint32 generation);

/* Visit the queues of a database (NULL: of all databases). No lock is held during a visit. */
template <typename Visit>
inline void
for_each_queue(const Database *db, Visit visit)
{
	for (int i = 0; i < shared->max_queues; i++)
	{
		QueueRef ref;
		/*
		 * Read the slot without a lock. A slot that is changing at this moment is visited the next
		 * time.
		 */
		if (ref_of(&shared->queues[i], &ref) && (db == nullptr || ref.queue->database == db))
			visit(ref);
	}
}

/*
 * Wake the launcher, because a database may need a scheduler. announce_extension() also notes that
 * a database may have got the extension. Cannot fail.
 */
void wake_launcher();
void announce_extension();

/* Wake the scheduler of the database, if there is one. Called without a lock. Cannot fail. */
void wake_scheduler(const Database *db);

/*
 * Note that schedules or handlers of the database have changed, and wake its scheduler. Called without a lock.
 * Cannot fail.
 */
void tell_of_definitions(Oid database);

/*
 * Return whether a scheduler was able to count lost leases of the queue within the last 5 s. Called
 * under the queue's lock.
 */
bool is_served(const Queue *queue, int64 monotonic);

} // namespace pgq
