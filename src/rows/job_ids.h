/* Job ids, which are the values of a sequence. */
#pragma once

#include "pg/pg.h"

namespace pgq {

int64 new_job_id();

/*
 * Draw n new job ids. If the sequence ascends, as it does unless somebody has altered it, so do the
 * ids.
 */
void draw_job_ids(int64 *ids, int n);

} // namespace pgq
