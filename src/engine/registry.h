/*
 * Which slot of shared memory belongs to which database and queue.
 *
 * A slot is attached from a committed (or own, uncommitted) row.  Leases and locks
 * that are bound to a session are in the slot alone, and end when it is freed.
 * Freed are: queues whose drop committed or whose creation was undone, and the
 * slots of databases and of incarnations of the extension that are known to be
 * gone: README.md, "The end of an incarnation".
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/* The transaction that is dropping the queue, or an invalid one. */
VirtualTransactionId dropper_of(const QueueRef &ref);

/* What the row of pgq_ext.queue says. */
struct QueueRow
{
	int32 queue_id;
	char name[kQueueNameMax + 1];
	QueueOptions options;
	bool ours; /* as this transaction has written it */
};

/* What the tables say of lease tokens: see catalog/token_mark.h and catalog/token_key.h. */
struct DurableTokens
{
	int64 mark;
	TokenKey key;
};

/*
 * A slot for this database. It is LOADING: nobody finds it before publish_database(). prepared:
 * the transactions that are prepared in it, listed before; they are watched from the moment
 * the slot is published. NULL when all slots are taken. One process at a time: see tables() in
 * load/attach.cpp.
 */
Database *attach_database(Oid oid, Oid incarnation, const DurableTokens &tokens,
						  const TransactionId *prepared, int n);

/* From here on the slot is used. Cannot fail. */
void publish_database(Database *db);

/* The slot or NULL. */
Database *find_database(Oid oid, Oid incarnation);

/* What late acks are judged by: see DatabaseTokens. All is 0, below every token, if the slot is another load's by now. */
struct Load
{
	int64 base_prefix;
	int64 mark_before;
	TokenKey key;
	uint32 failed_checks;
};
Load read_load(const Database *db, uint32 generation);

/* A late ack whose check bits are wrong. Returns how many there are in this load. */
uint32 note_failed_check(Database *db, uint32 generation);

/* The slot of that queue, attached if need be. Error 53400 when all slots are taken. */
QueueRef attach_queue(Database *db, uint32 db_generation, const QueueRow &row);

/* As above; false when all slots are taken. */
bool try_attach_queue(Database *db, uint32 db_generation, const QueueRow &row, QueueRef *ref);

/* The slot of that queue if it has one. */
bool find_attached_queue(const Database *db, int32 queue_id, QueueRef *ref);

/* Rename the queue; backends that remember the old name look again. Cannot fail; does nothing if ref is not current. */
void rename_slot(const QueueRef &ref, const char *name);

/* Is the slot a copy of that row? And make it one. */
bool is_like(const QueueRef &ref, const QueueRow &row);
void make_like(const QueueRef &ref, const QueueRow &row);

/*
 * A slot in use, as of one moment. Noted before the look that tells whether its database or its incarnation is gone: what
 * comes after the note has another generation, and stays.
 */
struct SlotNote
{
	Database *database;
	uint32 generation;
	Oid oid;
	Oid incarnation;
};

/* All of them. Returns how many: at most max_databases. */
int note_slots(SlotNote *notes);

/* What the launcher asks, under any incarnation: has this database a slot, a queue in use, a scheduler at work? */
bool is_attached(Oid oid);
bool has_queues(Oid oid);
bool has_scheduler(Oid oid);

/* Forget the queue and all its leases. Cannot fail; does nothing if ref is not current. */
void free_queue(const QueueRef &ref);

/* Forget the database, its queues and their leases. Does nothing if the generation is another. */
void free_database(Database *db, uint32 generation);

/* Visit the queues of a database (all databases: NULL). The visitor gets each with its lock not held. */
template <typename Visit>
inline void
for_each_queue(const Database *db, Visit visit)
{
	for (int i = 0; i < shared->max_queues; i++)
	{
		QueueRef ref;
		/* A racy first look: a slot that changes now is seen at the next round. */
		if (ref_of(&shared->queues[i], &ref) && (db == nullptr || ref.queue->database == db))
			visit(ref);
	}
}

/* Wake the launcher: a database may need a scheduler, (announce) may have got the extension. Cannot fail. */
void wake_launcher();
void announce_extension();

/* Wake the scheduler of that database, if there is one. Cannot fail; no lock held. */
void wake_scheduler(const Database *db);

/* Schedules of that database are not as its scheduler knows them. Cannot fail; no lock held. */
void tell_of_schedules(Oid database);

/* Could the scheduler count the lost leases of that queue in the last 5 s? Under the queue's lock. */
bool is_served(const Queue *queue, int64 monotonic);

} // namespace pgq
