/*
 * Checks of what SQL does to the tables without our functions.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/* Is what SQL writes the server's own doing, a restore or logical replication? */
bool is_believed();

/* Error 23503 if a job that was written to that segment by hand is for no queue, or one that is dropped. */
void check_queue_of_job(Relation segment, int32 queue_id);

} // namespace pgq
