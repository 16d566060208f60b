/*
 * Dead letters: pgq_ext.dead_job, whose segments rotate like those of pgq_ext.job. What is
 * written here beside the insert is the scheduler's, in plain SQL, and waits for nobody.
 */
#pragma once

#include "rows/job.h"
#include "ring/segment.h"

namespace pgq {

/*
 * A job that an administrator has brought back may have left its dead letter behind: the new one replaces it. Error
 * 55P03, only without wait, if somebody is at that row.
 */
void remove_dead_job(int64 job_id, bool wait);

/* A dead letter made of this row, in the current segment. */
void insert_dead_job(const JobRow &row, int32 attempts, const char *reason, bool has_error,
					 Datum error);

/*
 * As move_rows(), for dead letters. There is nothing in memory that leads to them: an UPDATE of
 * their segment does it, with row triggers off. Who waits for such a row gets 40001, as with any
 * UPDATE between partitions. Whoever creates or drops queues is given way to.
 */
bool move_dead_jobs(const Segment &from, const Segment &to, Position *next, int most, int *moved);

/*
 * Delete dead letters whose queue's keep_dead has passed, at most so many. Rows that somebody has
 * locked stay, and those without a queue. Returns how many were. The caller has locked the tables.
 */
int expire_dead_jobs(TimestampTz now, int most);

} // namespace pgq
