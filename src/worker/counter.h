/*
 * The counter of one database: a process that counts the jobs of its queues while the scheduler goes on. A count reads
 * what one snapshot sees, from beginning to end: in several transactions, rows that have gone meanwhile might have been
 * removed before they are read. The scheduler starts it where there are many rows, and ends it when it ends itself.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

inline constexpr char kCounterType[] = "pgq_ext counter";

/* The scheduler: let it run, if it does not. 53400 if there is no room for the process. */
void start_counter(Oid tablespace);
bool counter_is_running();

} // namespace pgq
