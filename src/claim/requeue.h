/* The last step of a round: what becomes of jobs that cannot be handed out. */
#pragma once

#include "claim/round.h"

namespace pgq {

/*
 * Settle the jobs of this round that cannot be handed out: set them aside, file them again with the
 * present values of their rows, or drop them. Cannot fail.
 */
void requeue_rejected(Round *round);

} // namespace pgq
