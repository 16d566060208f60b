/* The first step of a round: popping hints, and taking their leases. */
#pragma once

#include "claim/round.h"

namespace pgq {

enum class PopResult : uint8
{
	/*
	 * Hints were popped; Round::n may be 0. Also returned if no hint was popped because the rules
	 * for groups have changed, and some jobs that were in work at the change still have to be
	 * counted in their groups.
	 */
	kPopped,
	kRefill,
	kVisit, /* the first hint of the window is a marker of a group */
	kStep,	/* in a queue with fair, memory may lack jobs of the groups whose turn is next */
	kWaitForRefill,
	kTokenMark, /* there are jobs, but the token mark must be advanced first */
	kShort,		/* no lease was taken; Round::shortage says why */
};

/*
 * Pop up to round->most hints and take the leases of their jobs. The caller has reserved places for
 * the effects on these leases.
 */
PopResult pop(Round *round);

} // namespace pgq
