/* Waits on behalf of a client, which end when the client is gone or its time is over. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Return the time (monotonic) at which a wait of `wait` microseconds that begins now must end. If
 * the statement or the transaction would time out before, return an earlier time.
 */
int64 end_of_wait(int64 wait);

/* Raise a FATAL error if the client has disconnected. */
void check_client();

} // namespace pgq
