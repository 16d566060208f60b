#include "steps/member_end.h"

#include "txn/effects.h"

namespace pgq {

void
note_member_acked(int64 batch_id, int64 job_id)
{
	if (batch_id != 0)
		tell_batch_at_commit(batch_id, BatchNews::kEnd, job_id);
}

void
note_member_ended(int64 batch_id, int64 job_id, Note how)
{
	if (batch_id == 0)
		return;
	bool end = how != Note::kDead && how != Note::kDeadLetterDeleted;
	tell_batch_at_commit(batch_id, end ? BatchNews::kEnd : BatchNews::kChange, job_id);
	add_note(batch_id, how, 1);
}

} // namespace pgq
