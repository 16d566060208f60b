/*
 * Functions for a call that waits: the wait ends when the client has disconnected, and shortly
 * before a timeout of the statement or the transaction.
 */
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
