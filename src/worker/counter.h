/*
 * The counter of one database: a background worker that counts the jobs of the database's queues,
 * so that the scheduler can go on with other work. A count has to read all rows with one snapshot,
 * in one transaction: with a new snapshot for each part, rows could be removed or moved before the
 * count has read them. The scheduler starts the counter when there are many rows; the counter ends
 * when the scheduler ends.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

inline constexpr char kCounterType[] = "pgq_ext counter";

/*
 * Start the counter process if it is not running. Called by the scheduler. Raises 53400 if no
 * background worker is free.
 */
void start_counter(Oid tablespace);
bool counter_is_running();

} // namespace pgq
