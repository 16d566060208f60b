/*
 * Creating, altering, renaming, purging and dropping queues. These operations are rare, so they use
 * plain SQL.
 */
#pragma once

#include "catalog/owner_sql.h"
#include "engine/registry.h"

namespace pgq {

/*
 * Create a queue. options: a value for each option that is an argument. Returns false if the queue
 * exists and if_not_exists is set; without if_not_exists raises 42710.
 */
bool create_queue(const char *name, const Datum *options, bool if_not_exists);

/*
 * Change the options for which `given` is true, for all sessions from the commit on. Raises 42704.
 */
void alter_queue(const char *name, const Datum *options, const bool *given);

/* Create the segments of all rings, if there are none. */
void make_segments();

/*
 * Rename the queue together with its jobs and schedules; takes effect at commit. Raises 42704,
 * 42710. note_new_name() does all but the change of the queue's row; the trigger calls it for an
 * UPDATE by SQL.
 */
void rename_queue(const char *name, const char *new_name);
void note_new_name(int32 queue_id, const char *name, const char *new_name);

/*
 * Drop the queue. Returns false if there is no such queue and if_exists is set. Raises 42704
 * without if_exists. Without force raises 55006 if the queue has jobs or dead letters. Calls
 * before_drop() when no other transaction can write jobs to the queue any more; that may raise an
 * error.
 */
bool drop_queue(const char *name, bool if_exists, bool force,
				void (*before_drop)(int32 queue_id, const char *name, bool force));

/*
 * Do the first half of a drop: until this transaction ends, no other transaction can write jobs to
 * the queue. At commit the slot of the queue is freed. close_empty_queue() raises 55006, with
 * `hint`, if the queue has jobs or dead letters.
 */
void close_queue(const QueueRef &ref);
void close_empty_queue(const QueueRef &ref, const char *name, const char *hint);

/*
 * Delete all jobs of the queue except jobs for which is_in_hand() is true. Returns the number of
 * deleted jobs.
 */
uint64 purge_queue(const QueueRef &ref);

/*
 * Return whether a purge must leave the job alone: a worker has the job, a claim is looking at the
 * job, or another transaction holds the job by its unique key. Returns false if the job is set
 * aside or its lease was lost: the lease ends when the row is found to be gone. Returns false also
 * if no worker has the job and a transaction is changing or ending it: the DELETE waits for that
 * transaction at the row.
 */
bool is_in_hand(int64 job_id);

} // namespace pgq
