/* The first step of a round: popping hints, and taking their leases. */
#pragma once

#include "claim/round.h"

namespace pgq {

enum class PopResult : uint8
{
	kPopped, /* or tried to: n may be 0 when all hints were of leased jobs */
	kRefill,
	kProbe,
	kWaitForRefill,
	kTokenMark, /* there are jobs, but tokens would go beyond the durable mark */
	kShort,
};

/* Pop up to `most` hints and take their leases, for which places were reserved. */
PopResult pop(Round *round);

} // namespace pgq
