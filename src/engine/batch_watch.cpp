#include "engine/batch_watch.h"

namespace pgq {

void
tell_batch(Oid, const BatchTold &)
{}

void
tell_all_batches(Oid)
{}

void
begin_watching_batches(Oid)
{}

bool
next_told_batch(Oid, int64 *)
{
	return false;
}

void
begin_look(Oid, int64)
{}

void
await_witness(Oid, int64, int64)
{}

void
await_change(Oid, int64)
{}

void
forget_batch(Oid, int64)
{}

void
put_back_batch(Oid, int64)
{}

bool
take_all_told(Oid)
{
	return false;
}

bool
has_told_batches(Oid)
{
	return false;
}

int
count_told_batches(Oid)
{
	return 0;
}

bool
next_awaited(Oid, int *, int64 *, int64 *)
{
	return false;
}

bool
repair_batch(Oid, int64, int64)
{
	return false;
}

} // namespace pgq
