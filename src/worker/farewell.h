/*
 * The shutdown save: when the server is being stopped, a scheduler saves the leases of its
 * database. See README.md in this folder, "Stopping".
 */
#pragma once

#include "worker/shift.h"

namespace pgq {

/*
 * Arrange that this process saves the leases when it exits, if the server is being stopped. *shift
 * must live until the exit.
 */
void save_leases_at_exit(Shift *shift);

/* Delete saved leases that an advance of the token mark has made void. */
void forget_saved_leases(Shift &shift);

} // namespace pgq
