/*
 * DROP TABLE and DETACH PARTITION of a segment are refused: they would take jobs with them, and the ring would be short.
 *
 * By the statement, not by a dependency on the parent, which pg_depend could express: then a restore with --clean,
 * which drops table after table, would fail. It drops the indexes first, and a segment without them is not refused. What drops
 * more than tables (DROP EXTENSION, SCHEMA, OWNED) is not looked at.
 */
#pragma once

namespace pgq {

/* Called by _PG_init. */
void segment_guard_init();

} // namespace pgq
