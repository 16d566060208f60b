/*
 * The end of a member of a batch. Each end except an ack leaves a note, and the commit tells the
 * scheduler of each end (README of batches/).
 */
#pragma once

#include "rows/batch_note.h"

namespace pgq {

/*
 * Note that this transaction has acknowledged the member, and has deleted its row. Does nothing if
 * batch_id is 0: the job is no member.
 */
void note_member_acked(int64 batch_id, int64 job_id);

/*
 * Note that the member has become a dead letter (Note::kDead), has ended in another way than by an
 * ack, or was a dead letter that is deleted. Writes the note. Call this after the row is deleted,
 * without a buffer pinned. For rows that an SQL statement deletes, see rows/deleted_member.h.
 */
void note_member_ended(int64 batch_id, int64 job_id, Note how);

} // namespace pgq
