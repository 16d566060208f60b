/*
 * The end of a job that may have children, that is, jobs that wait for its end (README of
 * dependencies/). Call these functions after the row is written or deleted, without a buffer
 * pinned. If the database has no children, each function only reads a flag.
 */
#pragma once

#include "rows/dependency_row.h"

namespace pgq {

/*
 * Note that this transaction has ended the job for good: if the job may have a child, write the
 * outcome of the job, and tell the scheduler at commit. queue_id: the queue of the ended row.
 * result (jsonb) and error may be NULL.
 */
void note_parent_ended(int64 job_id, int32 queue_id, JobOutcome how, const Datum *result = nullptr,
					   const text *error = nullptr);

/*
 * Note that the job has become a dead letter. No outcome is written: the dead letter shows the end.
 */
void note_parent_died(int64 job_id);

/*
 * Note that SQL has inserted a job. If an earlier job with the same id has ended, delete its
 * outcome.
 */
void note_parent_back(int64 job_id);

} // namespace pgq
