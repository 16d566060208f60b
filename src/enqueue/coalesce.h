/*
 * Enqueuing jobs with unique keys without ever waiting for another transaction. If a job with the
 * key waits to be claimed, and no other transaction is changing it, no new job is inserted.
 * Otherwise the new job is inserted, so several jobs can have one key.
 */
#pragma once

#include "enqueue/unique_key.h"

namespace pgq {

/*
 * Enqueue at most kKeysAtOnce jobs with different keys. For each key there is afterwards a job that
 * is handed out only after the end of this transaction. A key that several transactions enqueue at
 * once may get several jobs. segments: opened here for reading; the caller closes them. Raises
 * PQ002.
 */
void enqueue_coalesced(const QueueRef &ref, SegmentSet &segments, const KeyedRequest *requests,
					   int n);

} // namespace pgq
