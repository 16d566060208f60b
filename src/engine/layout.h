/*
 * Requests and creates shared memory, part by part. Defines the settings that determine its size.
 */
#pragma once

namespace pgq {

/* Define settings and hooks. Called by _PG_init. */
void engine_init();

} // namespace pgq
