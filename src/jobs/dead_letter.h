/* Changing dead letters: revive, delete, explain. In SQL, since this is rare. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Delete the dead letter. Waits for a transaction that has locked it. Returns false if there is
 * none.
 */
bool delete_dead_letter(int64 job_id);

/*
 * Make the dead letter a job again, under its old id, with all its attempts, due after `delay`
 * (interval). Waits for a transaction that has locked it. Raises PQ002 if its queue is full.
 * Returns false if there is none.
 */
bool revive_dead_letter(int64 job_id, Datum delay);

/*
 * Record the worker's error for a dead letter whose last attempt was lost with that token. error:
 * text, if has_error. Returns false if there is no such dead letter.
 */
bool explain_dead_letter(int64 job_id, int64 token, bool has_error, Datum error);

/*
 * As explain_dead_letter(), in the record of the lost attempt, if there is one. death: why it was
 * the last attempt, or NULL.
 */
void explain_attempt(int64 job_id, int64 token, bool has_error, Datum error, const char *death);

/*
 * Make dead letters of a queue jobs again, at most `most` (negative: all), those that died first.
 * Skips locked ones. Returns their number.
 */
int64 redrive(const char *queue, int64 most);

} // namespace pgq
