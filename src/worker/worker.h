/*
 * Background workers: a launcher for the server, a scheduler for each database
 * that has the extension. See README.md in this folder.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

extern int notify_interval; /* milliseconds */

/* Define the GUC and register the launcher. Called by _PG_init. */
void workers_init();

inline constexpr char kLauncherType[] = "pgq_ext launcher";
inline constexpr char kSchedulerType[] = "pgq_ext scheduler";

/* What every worker does first. */
void start_worker();

/* Leave without a word if SIGTERM has come. In a lock wait it ends the process with FATAL. */
void end_if_asked();

/* Sleep until the latch is set or the time is over; then react to signals. */
void nap(int64 milliseconds);

} // namespace pgq
