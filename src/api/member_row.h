/*
 * The triggers of pgq_ext.job and pgq_ext.dead_job call these functions for members of batches: for
 * each row that an SQL statement writes, of the extension or of a user (README.md of batches/).
 */
#pragma once

#include "core/ring.h"
#include "pg/pg.h"

namespace pgq {

/*
 * Called after a row of the ring (kJobRing or kDeadRing) was inserted or deleted, or the table was
 * truncated: tell the scheduler of the batch of the row, and note an end.
 */
void note_member(const TriggerData *data, RingName ring);

/*
 * Return whether the row was deleted because an UPDATE has moved it to another partition. The
 * trigger of the insertion fires for the row, too.
 */
bool is_moved(HeapTuple row);

/*
 * Return whether the statement applies changes of a publisher. Then the triggers write no notes and
 * no outcomes, because the publisher sends its own. An ack on the publisher arrives as a DELETE.
 */
bool is_replicated();

/* Called before an update of a job's row: raises 0A000 if the update changes the batch. */
void refuse_other_batch(const TriggerData *data);

} // namespace pgq
