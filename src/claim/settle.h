/* The last step of a round: what becomes of jobs that cannot be handed out. */
#pragma once

#include "claim/round.h"

namespace pgq {

/*
 * Of what was popped last the jobs that cannot be handed out are set aside, filed back under the
 * row's values, or dropped. Cannot fail.
 */
void settle(Round *round);

} // namespace pgq
