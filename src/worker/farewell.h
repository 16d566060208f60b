/*
 * What a scheduler does when the server is being stopped: it saves the leases of its database. See
 * README.md in this folder, "Stopping".
 */
#pragma once

#include "worker/shift.h"

namespace pgq {

/* From now on, when this process ends. The shift outlives that. */
void save_leases_at_exit(Shift *shift);

/* Later, when saved leases are void: delete them. Costs nothing when there are none. */
void forget_saved_leases(Shift &shift);

} // namespace pgq
