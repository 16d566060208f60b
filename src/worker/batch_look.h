/*
 * One look of the scheduler at a batch: find out which members have ended and how, and enqueue the
 * callbacks that are due. See the README of batches/, "How a batch finishes".
 */
#pragma once

#include "batches/look.h"

namespace pgq {

/*
 * Look at the batch. The caller has locked the tables, and has told memory that the look begins. Waits for
 * no other session. A callback that cannot be enqueued is noted in the row of the batch. If the batch is
 * cancelled, the look also ends members, from *cancelled_to on.
 */
LookResult look_at_batch(int64 batch_id, int64 *cancelled_to);

} // namespace pgq
