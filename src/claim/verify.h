/* The second step of a round: looking at the rows of the jobs that were popped. */
#pragma once

#include "claim/round.h"

namespace pgq {

/*
 * Look at the rows, and have the claim give those that can be handed out. Returns how many
 * cannot. What a row took of the scratch memory is freed as soon as the caller has its copy.
 */
int verify(Round *round, Claim *claim, MemoryContext scratch);

} // namespace pgq
