/* The second step of a round: looking at the rows of the jobs that were popped. */
#pragma once

#include "claim/round.h"

namespace pgq {

/*
 * Read the rows of the popped hints. Add each job that can be handed out to claim->ready, and pass
 * its row to claim->give(). Returns the number of jobs that cannot be handed out. `scratch` is
 * reset after each row that was passed on, since give() has then copied the row.
 */
int verify(Round *round, Claim *claim, MemoryContext scratch);

} // namespace pgq
