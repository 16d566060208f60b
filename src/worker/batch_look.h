/*
 * One look of the scheduler at a batch: find out what has become of its members, and enqueue the callbacks
 * that are due. See the README of batches/, "How a batch finishes".
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* What the batch waits for after the look. */
enum class LookEnd : uint8
{
	kNothing, /* for a time that its row names (due_at), or for any end; or it is settled or gone */
	kWitness, /* for the end of a member */
	kChange,  /* the batch is open: for a close or a death */
	kLock,	  /* a lock was not free */
	kMembers, /* the batch is cancelled: for the end of a member, which the scheduler may end later */
};

struct LookResult
{
	LookEnd end;
	int64 witness;	/* for kWitness, kMembers */
	bool has_fired; /* the row of the batch was written */
};

/*
 * Look at the batch. The caller has locked the tables, and has told memory that the look begins. Waits for
 * no other session. A callback that cannot be enqueued is noted in the row of the batch. If the batch is
 * cancelled, the look also ends members, from *cancelled_to on.
 */
LookResult look_at_batch(int64 batch_id, int64 *cancelled_to);

} // namespace pgq
