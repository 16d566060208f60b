/*
 * The end of a session: its process exits, or a connection pooler hands the session to another
 * client (DISCARD ALL).
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Install the hook that notices DISCARD ALL. Called by _PG_init. */
void session_end_init();

/*
 * Call `end` at each end of this session from now on; `end` must not fail. Registering the same
 * function again does nothing.
 */
using SessionEnd = void (*)();
void at_session_end(SessionEnd end);

/* Do what the end of a session does to its leases and locks, and go on as a new session. */
void end_session();

} // namespace pgq
