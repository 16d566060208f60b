#include "worker/witness_check.h"

#include "batches/look.h"
#include "engine/batch_watch.h"
#include "pg/clock.h"
#include "rows/member.h"

namespace pgq {

/*
 * Return whether the job is a member that has not ended. As in a look at a batch, a row that moves to
 * another segment may be missed by the first search, and a row of an open transaction by the second.
 */
static bool
lives(int64 batch_id, int64 job_id)
{
	SegmentSet segments(AccessShareLock);
	bool found = is_live_member(segments, batch_id, job_id);
	segments.close();
	int64 first;
	return found || (find_members(batch_id, job_id - 1, &first, 1) == 1 && first == job_id);
}

static void
note_suspects_of(WitnessCheck *check)
{
	static constexpr int kEntriesAtOnce = 256;
	int64 batch_id;
	int64 witness;
	for (int i = 0; i < kEntriesAtOnce && check->n < WitnessCheck::kSuspects; i++)
	{
		if (!next_awaited(MyDatabaseId, &check->position, &batch_id, &witness))
		{
			check->under_way = false;
			return;
		}
		if (lives(batch_id, witness))
			continue;
		check->suspects[check->n++] = {batch_id, witness};
		check->noted_at = monotonic_now();
	}
}

/* Repair the entries of the suspects. All transactions that have ended them have told memory by now. */
static void
repair_suspects(WitnessCheck *check)
{
	for (int i = 0; i < check->n; i++)
	{
		const WitnessCheck::Suspect &suspect = check->suspects[i];
		if (lives(suspect.batch_id, suspect.witness) ||
			!repair_batch(MyDatabaseId, suspect.batch_id, suspect.witness))
			continue;
		check->repaired++;
		ereport(WARNING,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("memory did not know that job %lld of batch %lld has ended",
						static_cast<long long>(suspect.witness),
						static_cast<long long>(suspect.batch_id)),
				 errhint("This can happen if the row of the job was deleted while the trigger "
						 "job_changed was disabled. Otherwise please report it.")));
	}
	check->n = 0;
}

void
check_witnesses(WitnessCheck *check)
{
	int64 now = monotonic_now();
	if (check->n > 0 && now - check->noted_at > USECS_PER_SEC)
		repair_suspects(check);
	if (!check->under_way && now >= check->round_at)
	{
		check->under_way = true;
		check->position = 0;
		check->round_at = now + USECS_PER_MINUTE;
	}
	if (check->under_way)
		note_suspects_of(check);
}

} // namespace pgq
