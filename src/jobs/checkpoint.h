/*
 * Checkpoints: values that a worker keeps for the steps of its job, so that the next attempt does
 * not repeat a step that is done. Checkpoints are rows of a table of their own,
 * pgq_ext.job_checkpoint: a column of the job's row would be written again with the whole payload
 * at each step.
 *
 * keep_checkpoint() uses the lease (protocol: used-is-pinned). So only one transaction at a time
 * reads and writes the checkpoints of a job: an attempt whose transaction is open has no successor,
 * and a worker with a stale lease gets an error.
 *
 * Checkpoints belong to a job id. No function that ends a job touches them. When a job exists
 * neither as a job nor as a dead letter, the scheduler deletes its checkpoints.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Return the value that is kept for the step in *value. If there is none and *value is given
 * (*is_null is false), keep *value. Returns false if the lease is stale. Raises 54000 if the job has
 * the greatest number of steps. The result is allocated in the caller's memory context.
 */
bool keep_checkpoint(int64 job_id, int64 token, Datum step, Datum *value, bool *is_null);

/*
 * The number of rows that a step of the sweep reads: at least the greatest number of checkpoints of
 * one job.
 */
inline constexpr int kCheckpointsAtOnce = 1000;

/*
 * Read the next rows of checkpoints after *last (a job id). Store the jobs among them that have
 * ended, if their checkpoints are at least 5 minutes old: a restore can bring checkpoints before
 * jobs. Return the number of these jobs. Set *last to the last job of the rows; to 0 at the end of
 * the table. The caller has locked the segments (protocol: counted-by-snapshot).
 */
int find_ended_jobs(int64 *last, int64 (&jobs)[kCheckpointsAtOnce]);

/* Delete the checkpoints of these jobs, except rows that other transactions have locked. */
void delete_checkpoints(const int64 *jobs, int n);

} // namespace pgq
