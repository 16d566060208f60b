/*
 * A hook that refuses DROP TABLE and DETACH PARTITION of a segment: the jobs in the segment would
 * be lost, and the ring would be incomplete.
 *
 * The check looks at the statement. A dependency of the parent on its segments in pg_depend would
 * also protect the segments, but would break pg_restore --clean, which drops table after table.
 * pg_restore drops the indexes first, so a segment without its indexes is not protected. Commands
 * that drop more than tables (DROP EXTENSION, SCHEMA, OWNED) are not checked.
 */
#pragma once

namespace pgq {

/* Install the hook. Called by _PG_init. */
void segment_guard_init();

} // namespace pgq
