/* Job ids, which are the values of a sequence. */
#pragma once

#include "pg/pg.h"

namespace pgq {

int64 new_job_id();

/*
 * Draw n new job ids. The ids ascend, unless ALTER SEQUENCE has made the sequence descend or cycle.
 */
void draw_job_ids(int64 *ids, int n);

/* Draw n values of any sequence, in the same way. */
void draw_values(Oid sequence, int64 *values, int n);

} // namespace pgq
