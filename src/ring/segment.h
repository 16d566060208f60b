/*
 * A segment as a whole: its size and its locks. Nothing here waits for a lock.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/* Bytes of heap, TOAST and our indexes. As everywhere here the caller has locked the tables: lock_tables(). */
int64 segment_bytes(const Segment &segment);

/* No page: nothing was written to it since it was truncated. */
bool is_bare(const Segment &segment);

/*
 * Of a bare one. Sessions tell the statistics up to a second late of the rows that they deleted: that is when
 * there are none of these any more, and would count until the next TRUNCATE.
 */
void clear_statistics(const Segment &segment);

/* Of heap and TOAST alone. */
int64 table_bytes(const Segment &segment);

/* Its TOAST table, or invalid. */
Oid toast_of(const Segment &segment);

/* Lock a table and all of its indexes, which whoever plans a query on it locks, without waiting. */
bool lock_with_indexes(Oid relid, LOCKMODE mode);

/* Lock it, its TOAST table and their indexes as an enqueue does. */
bool lock_for_writing(const Segment &segment);

} // namespace pgq
