/*
 * The end of a session, however it comes: its process leaves, or a pooler hands it to another client (DISCARD ALL).
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Called by _PG_init: DISCARD ALL is noticed by a hook. */
void session_end_init();

/* To be called at each end of this session from here on; it cannot fail. Once is enough. */
using SessionEnd = void (*)();
void at_session_end(SessionEnd end);

} // namespace pgq
