/*
 * A segment as a whole: its size and its locks. Nothing here waits for a lock. The caller has
 * locked the extension's tables (lock_tables()).
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/* Return the bytes of heap, TOAST table and the extension's indexes. */
int64 segment_bytes(const Segment &segment);

/* Return whether the segment has no page: nothing was written since the last TRUNCATE. */
bool is_bare(const Segment &segment);

/*
 * Clear the server's statistics of a bare segment. Sessions report deleted rows up to a second
 * late, perhaps after the TRUNCATE. Such dead rows would stay in the statistics until the next
 * TRUNCATE.
 */
void clear_statistics(const Segment &segment);

/* Return the bytes of heap and TOAST table, without indexes. */
int64 table_bytes(const Segment &segment);

/* Return the TOAST table of the segment, or InvalidOid. */
Oid toast_of(const Segment &segment);

/*
 * Lock the segment, its TOAST table and the indexes of both in the lock mode that an enqueue uses,
 * without waiting. Returns false if some lock is not available.
 */
bool lock_for_writing(const Segment &segment);

} // namespace pgq
