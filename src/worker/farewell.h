/*
 * The shutdown save: when the server is being stopped, a scheduler saves the leases of its
 * database. See README.md in this folder, "Stopping".
 */
#pragma once

#include "worker/shift.h"

namespace pgq {

/*
 * Arrange that the leases are saved when this process exits, if the server is being stopped. *shift
 * must live until then.
 */
void save_leases_at_exit(Shift *shift);

/* Delete saved leases that have become void. Does nothing if there are none. */
void forget_saved_leases(Shift &shift);

} // namespace pgq
