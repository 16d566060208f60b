/* Cancelling a batch. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Cancel the batch: delete its waiting members, and close it. Returns the number of deleted members. The
 * scheduler ends the other members. Raises 42704 as close_batch() does.
 */
int64 cancel_batch(int64 batch_id);

} // namespace pgq
