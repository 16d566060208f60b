/* Waiting on behalf of a client: when to stop waiting. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Return the time (monotonic) at which a wait of that many microseconds, begun now, must end:
 * earlier if the statement or transaction would time out before.
 */
int64 end_of_wait(int64 wait);

/* Raise a FATAL error if the client has disconnected. */
void check_client();

} // namespace pgq
