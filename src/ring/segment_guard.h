/*
 * Refuses DROP TABLE and DETACH PARTITION of a segment: jobs would be lost with it, and the ring
 * would be incomplete.
 *
 * The check looks at the statement. A dependency of the parent on its segments, in pg_depend, would
 * also break pg_restore --clean, which drops table after table. That drops the indexes first, and a
 * segment without its indexes is not protected. Commands that drop more than tables (DROP
 * EXTENSION, SCHEMA, OWNED) are not checked.
 */
#pragma once

namespace pgq {

/* Install the hook. Called by _PG_init. */
void segment_guard_init();

} // namespace pgq
