/* Creating, altering, renaming, purging and dropping queues: rare, so done by plain SQL. */
#pragma once

#include "catalog/owner_sql.h"
#include "engine/registry.h"

namespace pgq {

/*
 * Create a queue, with a value for each option that is an argument. Returns false if it exists and
 * if_not_exists; otherwise raises 42710.
 */
bool create_queue(const char *name, const Datum *options, bool if_not_exists);

/* Change the given options, for all sessions from the commit on. Raises 42704. */
void alter_queue(const char *name, const Datum *options, const bool *given);

/* Create the segments of all rings, if there are none. */
void make_segments();

/*
 * Rename the queue from the commit on, with its jobs and schedules. Raises 42704, 42710.
 * note_new_name() does all but the change of the row, for an UPDATE by SQL.
 */
void rename_queue(const char *name, const char *new_name);
void note_new_name(int32 queue_id, const char *name, const char *new_name);

/*
 * Drop the queue. Returns false if there is none and if_exists. Raises 42704, and without force
 * 55006 if it has jobs or dead letters.
 */
bool drop_queue(const char *name, bool if_exists, bool force);

/*
 * The first half of a drop: until this transaction ends no other transaction writes jobs to the
 * queue, and at commit its slot is freed. close_empty_queue() raises 55006, with that hint, if the
 * queue has jobs or dead letters.
 */
void close_queue(const QueueRef &ref);
void close_empty_queue(const QueueRef &ref, const char *name, const char *hint);

/* Delete all jobs except those for which is_in_hand(). Returns their number. */
uint64 purge_queue(const QueueRef &ref);

/*
 * Return whether a purge must leave the job alone: a worker has it, a claim is looking at it, or
 * another transaction holds it by its unique key. False if it is set aside or its lease was lost,
 * and if a transaction is changing or ending it: a DELETE of the row waits for that transaction.
 * The lease ends when the row is found to be gone.
 */
bool is_in_hand(int64 job_id);

} // namespace pgq
