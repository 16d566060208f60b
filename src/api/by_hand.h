/*
 * Checks of what SQL does to the tables without our functions.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/* Is what SQL writes the server's own doing, a restore or logical replication? */
bool is_believed();

/*
 * The first half of dropping a queue: nobody can write jobs to it until this transaction ends, and at commit its place in
 * memory is freed. The second: error 55006 with that hint if it has jobs or dead letters. (In queue.cpp.)
 */
void close_queue(const QueueRef &ref);
void close_empty_queue(const QueueRef &ref, const char *name, const char *hint);

/* Error 23503 if a job that was written to that segment by hand is for no queue, or one that is dropped. */
void check_queue_of_job(Relation segment, int32 queue_id);

} // namespace pgq
