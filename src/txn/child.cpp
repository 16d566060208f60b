/* Effects on what memory knows about children and parents. */
#include "txn/effects.h"
#include "txn/pending.h"

namespace pgq {

void
tell_child_at_commit(int64)
{}

void
tell_parent_at_commit(int64)
{}

} // namespace pgq
