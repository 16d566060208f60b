/*
 * The reconciler of the memory about batches (engine/batch_watch.h). An entry that waits for the end of a
 * witness is right only if the witness lives. The check looks at each entry once a minute. A witness that
 * is gone is at first only a suspect: its end may be visible a moment before memory is told. If the entry
 * still waits for it a second later, the batch is looked at again, and a WARNING says so. The protocol
 * makes this impossible; the check proves that in production.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct WitnessCheck
{
	static constexpr int kSuspects = 64;
	struct Suspect
	{
		int64 batch_id;
		int64 witness;
	};

	int position;	/* position of the present round, for next_awaited() */
	bool under_way; /* a round has begun */
	int64 round_at; /* monotonic: the next round begins */
	Suspect suspects[kSuspects];
	int n;
	int64 noted_at;	 /* monotonic: when the last suspect was noted */
	uint64 repaired; /* number of wrong entries found since the start of this scheduler */
};

/* Check the next entries. The caller has locked the tables. */
void check_witnesses(WitnessCheck *check);

} // namespace pgq
