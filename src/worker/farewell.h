/*
 * What a scheduler does when the server is being stopped: it saves the leases of its database. See
 * README.md in this folder, "Stopping".
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/* From now on, when this process ends. */
void save_leases_at_exit(Database *database, uint32 generation);

/* Later, when saved leases are void: delete them. Costs nothing when there are none. */
void forget_saved_leases();

} // namespace pgq
