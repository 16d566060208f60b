/*
 * The parents of new jobs. An enqueue of a child first inserts the dependencies, and then looks at
 * each parent (README of dependencies/, "The child inserts, then looks").
 */
#pragma once

#include "rows/dependency_row.h"
#include "rows/segment_set.h"

namespace pgq {

/* The greatest number of parents of a job. */
inline constexpr int kParentsMax = 1000;

/*
 * A parent as the caller has named it: by the id of the job, or by the name of an element in the
 * same call.
 */
struct ParentName
{
	int64 job_id; /* used if ref is NULL */
	const text *ref;
};

struct ParentList
{
	int n;
	ParentName names[FLEXIBLE_ARRAY_MEMBER];
};

/* Return an empty list with room for n names. Raises 54000 if n is greater than kParentsMax. */
ParentList *new_parent_list(int n);

/* Add a name, unless the list already has that name. */
void add_parent(ParentList *parents, const ParentName &name);

/*
 * Insert the dependencies (protocol: children-flag-first), and let the commit tell the scheduler of
 * the children.
 */
void depend(const Dependency *dependencies, int n);

/*
 * Look at the parent of a dependency that this transaction has inserted. Waits for another
 * transaction that is inserting, changing or ending the parent, and closes the segments before the
 * wait. If the parent has ended, and there is no outcome, writes the outcome. Raises 42704 if there
 * is no such job, if no row says how the job has ended, or if the caller may not ask for its
 * result.
 */
void look_at_parent(SegmentSet &segments, int64 parent_id);

/* Look at the parents of all dependencies in the order of their ids, each parent once. */
void look_at_parents(SegmentSet &segments, const Dependency *dependencies, int n);

} // namespace pgq
