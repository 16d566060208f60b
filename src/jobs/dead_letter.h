/*
 * Dead letters that come back, or go: in SQL, since they are rare.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Waits for who has locked it. False: there is none. */
bool delete_dead_letter(int64 job_id);

/* It is a job again, under its id, with all its attempts, due delay (interval) from now. Waits for who has locked it. Error PQ002: its queue is full. False: there is none. */
bool revive_dead_letter(int64 job_id, Datum delay);

/*
 * The last attempt of a dead letter was lost, with that token, and its worker says why (has_error: the text error). False:
 * there is none of which that can be said.
 */
bool explain_dead_letter(int64 job_id, int64 token, bool has_error, Datum error);

/* So does the record of a lost attempt, if there is one. death: why it was the last one, or NULL. */
void explain_attempt(int64 job_id, int64 token, bool has_error, Datum error, const char *death);

/* Of a queue those that died first, at most that many; those that somebody has locked are left out. Returns how many. */
int64 redrive(const char *queue, int64 most);

} // namespace pgq
