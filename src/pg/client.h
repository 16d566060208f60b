/*
 * A call that waits for something, for its client.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* When it ends at the latest, for a wait of so long (microseconds; monotonic). */
int64 end_of_wait(int64 wait);

/* FATAL if the client is gone. */
void check_client();

} // namespace pgq
