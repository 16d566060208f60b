/* The waits of a search for the owner of a unique key. */
#pragma once

#include "enqueue/key_owner.h"

namespace pgq {

/*
 * Wait for the transaction, claim, row or turn that find_owner() has noted with kNotYet. Closes the
 * segments. The caller has released the lock of the key.
 */
void wait_for_decision(SegmentSet &segments, OwnerSearch *search);

/* Give the turn at the job back. Called when the search has an answer. */
void end_search(OwnerSearch *search);

} // namespace pgq
