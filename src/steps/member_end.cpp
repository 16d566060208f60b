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
	tell_batch_at_commit(batch_id, how == Note::kDead ? BatchNews::kChange : BatchNews::kEnd,
						 job_id);
	add_note(batch_id, how, 1);
}

void
note_members_ended(int64 batch_id, int64 n, Note how)
{
	tell_batch_at_commit(batch_id, BatchNews::kChange, 0);
	add_note(batch_id, how, n);
}

} // namespace pgq
