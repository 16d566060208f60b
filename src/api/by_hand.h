/*
 * Checks of rows that SQL statements write to the tables directly, not through the functions of the
 * extension.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/*
 * Return whether the statement belongs to a restore or to logical replication, whose rows are not
 * checked.
 */
bool is_believed();

/*
 * Raise error 23503 if no queue has this queue_id, or the queue was dropped. Called for a job that
 * a statement writes to that segment.
 */
void check_queue_of_job(Relation segment, int32 queue_id);

} // namespace pgq
