/*
 * Jobs and their leases, as two arrays.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct JobList
{
	Datum *ids;
	Datum *tokens;
	int n;

	int64 id(int i) const { return DatumGetInt64(ids[i]); }
	int64 token(int i) const { return DatumGetInt64(tokens[i]); }
};

/*
 * The first two arguments, in the order of the ids: whoever takes several leases in hand does it in
 * that order, or two of them could wait for each other. NULL and NULL, what array_agg() says of no
 * rows: none. Errors: 22004 one is NULL, 22023 they differ in length, 54000 more than 10,000.
 */
JobList read_jobs(FunctionCallInfo fcinfo);

/* PQ001 */
[[noreturn]] void complain_stale(int64 job_id, int64 token);

} // namespace pgq
