/*
 * The counter of one database: a background worker that counts the jobs of its queues, so that the
 * scheduler can go on. Each count reads with one snapshot from beginning to end: if it took several
 * transactions, rows could be removed before they are read. The scheduler starts the counter when
 * there are many rows, and ends it when the scheduler itself ends.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

inline constexpr char kCounterType[] = "pgq_ext counter";

/*
 * Start the counter if it does not run. Called by the scheduler. Error 53400 if no worker slot is
 * free.
 */
void start_counter(Oid tablespace);
bool counter_is_running();

} // namespace pgq
