/*
 * Shared memory is asked for and made: its parts, one after the other, and the settings that size it.
 */
#pragma once

namespace pgq {

/* Called by _PG_init. */
void engine_init();

} // namespace pgq
