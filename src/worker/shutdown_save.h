/*
 * The shutdown save: when the server is being stopped, a scheduler saves the leases of its
 * database. See stopping.md in this folder.
 */
#pragma once

#include "worker/scheduler_state.h"

namespace pgq {

/*
 * Arrange that this process saves the leases when it exits, if the server is being stopped.
 * *scheduler must live until the exit.
 */
void save_leases_at_exit(SchedulerState *scheduler);

/* Delete saved leases that an advance of the token mark has made void. */
void forget_saved_leases(SchedulerState &scheduler);

} // namespace pgq
