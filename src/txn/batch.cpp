/* Effects on what memory knows about batches (engine/batch_watch.h). */
#include "txn/effects.h"
#include "txn/pending.h"

namespace pgq {

void
tell_batch_at_commit(int64, BatchNews, int64)
{
}

void
tell_batch_at_abort(int64)
{
}

void
tell_all_batches_at_commit()
{
}

} // namespace pgq
