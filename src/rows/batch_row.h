/* Rows of pgq_ext.job_batch, one for each batch. See the README of batches/. */
#pragma once

#include "pg/pg.h"

namespace pgq {

struct BatchRow
{
	Oid maker; /* invalid: a dump has brought the batch, and there is no such role */
	bool closed;
	bool finished;
};

/*
 * Read the newest committed state of the batch, or the state that this transaction has written, at
 * every isolation level. Returns false if there is no such batch.
 */
bool find_batch(int64 batch_id, BatchRow *batch);

/* Return the state of the batch that this session has read last, or NULL. It may have changed. */
const BatchRow *last_seen(int64 batch_id);

/*
 * Read the state of a batch that this session has read before, if nobody has changed or locked its row
 * since: then this is the newest state. Otherwise returns false.
 */
bool find_again(int64 batch_id, BatchRow *batch);

} // namespace pgq
