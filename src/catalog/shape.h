/*
 * The shape of a segment: what the catalog says of its columns, indexes and triggers. A session
 * compares the columns of a segment when it opens the segment, and looks at the rest when it uses an
 * index for the first time. It does so under the lock of the segment, and remembers the shape until
 * the relation cache reports a change. So the first call of a session reads the catalog only for the
 * segments and indexes that the call uses.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

struct Shape
{
	Oid index[kIndexes]; /* by IndexName; invalid if the segment need not have such an index */
	bool muted;			 /* the segment has a muted trigger (own_trigger.h) */
	bool has_others;	 /* the segment has indexes that users have added */
	bool
		has_batches; /* the segment has the column batch_id, the columns after it, and their indexes */
};

/*
 * Return the shape of a segment that the caller has opened and locked. Raises 55000 if the columns
 * differ, or if an index is missing.
 */
Shape shape_of(Relation segment, int number);

/*
 * Compare the columns of a segment that the caller has opened and locked, for code that may use no
 * index of the segment. Raises 55000 if the columns differ.
 */
void check_segment(Relation segment, int number);

/*
 * Open a segment for reading or writing, and look at its shape: the segment may have been altered
 * during the wait for its lock. Raises 55000 as shape_of() does.
 */
Relation open_segment(const Segment &segment, LOCKMODE mode);

/*
 * Look at the shapes of all segments, and lock each segment for a moment to do so. Return whether
 * the segments exist and no index is missing. A caller that has locked segments must have locked all
 * of them.
 */
bool has_whole_segments();

/*
 * Return whether the shapes of all segments are known, so that has_whole_segments() locks no
 * segment.
 */
bool shapes_known();

/*
 * Raise error 55000 if only some of the segments exist, or if an index is missing. No error if
 * there are no segments at all. Locks the segments as has_whole_segments() does.
 */
void require_whole_segments();

} // namespace pgq
