/* Enqueuing a finished job once more: pgq_run_again. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Enqueue a job like the finished job with this id, of which a record is kept. The new job has an id
 * of its own. *new_id: set to that id. Returns false if there is no such record, or if the caller
 * may not see the job. Raises 42501 if the caller may not enqueue, 42704 if the queue is dropped,
 * and the errors of pgq_enqueue.
 */
bool run_again(int64 job_id, int64 *new_id);

} // namespace pgq
