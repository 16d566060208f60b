/*
 * The parents of new jobs. An enqueue of a child first inserts the dependencies, and then looks at
 * each parent (README of dependencies/, "The child inserts, then looks").
 */
#pragma once

#include "rows/dependency_row.h"
#include "rows/segment_set.h"

namespace pgq {

/* A job has at most so many parents. */
inline constexpr int kParentsMax = 1000;

/* A parent as the caller has named it: by its id, or by its name in the same call. */
struct ParentName
{
	int64 job_id; /* if ref is NULL */
	const text *ref;
};

struct ParentList
{
	int n;
	ParentName names[FLEXIBLE_ARRAY_MEMBER];
};

/* Return a list with room for n names; n is set to 0. Raises 54000 if n is above kParentsMax. */
ParentList *new_parent_list(int n);

/* Add a name, unless the list has it. */
void add_parent(ParentList *parents, const ParentName &name);

/* Insert the dependencies, in the order of flag-first, and note that memory is told of the children at commit. */
void depend(const Dependency *dependencies, int n);

/*
 * Look at the parent of a dependency that this transaction has inserted. Waits for another
 * transaction that is inserting, changing or ending it; closes the segments before that. If the parent has ended
 * and no outcome says how, write the outcome. Raises 42704 if there is no such job, if nothing says how it has
 * ended, or if the caller may not ask for its result.
 */
void look_at_parent(SegmentSet &segments, int64 parent_id);

/* Look at the parents of all dependencies, each once, in the order of their ids. */
void look_at_parents(SegmentSet &segments, const Dependency *dependencies, int n);

} // namespace pgq
