/*
 * Creating, purging and dropping queues: rare, so plain SQL does what no hot path does.
 */
#pragma once

#include "catalog/owner_sql.h"
#include "engine/registry.h"

namespace pgq {

/* With a value for each of queue_options that is an argument. False: there is one, and if_not_exists. Error 42710. */
bool create_queue(const char *name, const Datum *options, bool if_not_exists);

/* The options that are given change, for everybody when this transaction has committed. Error 42704. */
void alter_queue(const char *name, const Datum *options, const bool *given);

/* Segments of all rings, if there are none. */
void make_segments();

/*
 * Give the queue, with all it has, and its schedules a new name, from the commit on. Errors: 42704, 42710.
 * note_new_name: all but the change of the row, which an UPDATE by SQL makes itself.
 */
void rename_queue(const char *name, const char *new_name);
void note_new_name(int32 queue_id, const char *name, const char *new_name);

/* False: there is none, and if_exists. Errors: 42704; 55006 unless force if it has jobs or dead letters. */
bool drop_queue(const char *name, bool if_exists, bool force);

/*
 * The first half of it: nobody can write jobs to the queue until this transaction ends, and at commit its place in memory
 * is freed. And the same unless it has jobs or dead letters: error 55006 with that hint.
 */
void close_queue(const QueueRef &ref);
void close_empty_queue(const QueueRef &ref, const char *name, const char *hint);

/* Jobs that wait are deleted; those that run are their workers'. Returns how many. */
uint64 purge_queue(const QueueRef &ref);

/*
 * Return true if a purge must leave the job alone: a worker has it, a claim is looking at it, or another transaction holds
 * it by its unique key. Return false if it is set aside or its lease was lost, and if a transaction is changing or ending
 * it: a DELETE of the row waits for that transaction. The lease ends when the row is found to be gone.
 */
bool is_in_hand(int64 job_id);

} // namespace pgq
