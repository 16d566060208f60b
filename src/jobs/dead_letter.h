/*
 * Changing dead letters: revive, delete, add the worker's error. These operations are rare, so they
 * are written in SQL.
 */
#pragma once

#include "jobs/job_filter.h"

namespace pgq {

/*
 * Delete the dead letter. Waits for a transaction that has locked it. Returns false if there is no
 * such dead letter.
 */
bool delete_dead_letter(int64 job_id);

/*
 * Turn the dead letter back into a job with the same id, with attempts counted from 0, due after
 * `delay` (interval). Waits for a transaction that has locked the dead letter. Raises PQ002 if the
 * queue is full. Returns false if there is no such dead letter, or if it does not match the filter
 * when it is locked.
 */
bool revive_dead_letter(int64 job_id, Datum delay, const JobFilter &filter);

/*
 * Add the worker's error to the dead letter of a job whose last attempt, with the lease `token`,
 * was lost. error: text, if has_error. Returns false if there is no such dead letter.
 */
bool explain_dead_letter(int64 job_id, int64 token, bool has_error, Datum error);

/*
 * Add the worker's error to the record of the lost attempt, if there is such a record. death: why
 * the job died after this attempt, or NULL. Other arguments as in explain_dead_letter().
 */
void explain_attempt(int64 job_id, int64 token, bool has_error, Datum error, const char *death);

/*
 * Turn the oldest dead letters of a queue that match the filter back into jobs: at most `most`, or
 * all if `most` is negative. Skips locked dead letters. Returns the number of jobs.
 */
int64 redrive(const char *queue, int64 most, const JobFilter &filter);

} // namespace pgq
