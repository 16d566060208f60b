/*
 * Reading the parents of a job that a worker has (pgq_parents). A worker with the lease of the
 * child may read the results of the parents: the role that enqueued the child had the right to ask
 * for them.
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
 * pgq_assert_lease. Returns false if the lease is stale. *parents is allocated in the caller's
 * memory context.
 */
bool find_parents(int64 job_id, int64 token, ParentState **parents, int *n);

} // namespace pgq
