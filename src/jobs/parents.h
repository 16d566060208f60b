/*
 * Reading the parents of a job that a worker has (pgq_parents). The lease of the child is the right to
 * read the results of its parents: who has enqueued the child had that right.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct ParentState
{
	int64 parent_id;
	const char *state;
	bool has_ref;
	bool has_result;
	bool has_error;
	Datum ref;	  /* text */
	Datum result; /* jsonb */
	Datum error;  /* text */
};

/*
 * Find the parents of the job, in the order of their ids. The lease is asserted as by
 * pgq_assert_lease; returns false if it is stale. *parents is allocated in the caller's memory
 * context.
 */
bool find_parents(int64 job_id, int64 token, ParentState **parents, int *n);

} // namespace pgq
