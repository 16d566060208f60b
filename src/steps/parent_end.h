/*
 * The end of a job that may have children, that is, jobs that wait for its end (README of
 * dependencies/). Each function is called after the row is written or deleted, without a buffer
 * pinned. If the database has no children, each only asks a flag.
 */
#pragma once

#include "rows/dependency_row.h"

namespace pgq {

/*
 * Note that this transaction has ended the job for good: if the job may have a child, write its
 * outcome, and tell the scheduler at commit. queue_id: the queue of the ended row. result: jsonb, or
 * NULL. error: or NULL.
 */
void note_parent_ended(int64 job_id, int32 queue_id, JobOutcome how, const Datum *result = nullptr,
					   const text *error = nullptr);

/* Note that the job has become a dead letter. The dead letter is its outcome. */
void note_parent_died(int64 job_id);

/* Note that a job was inserted by SQL. If a job of that id had ended before, delete its outcome. */
void note_parent_back(int64 job_id);

} // namespace pgq
