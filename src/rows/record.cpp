#include "rows/record.h"

#include "rows/index.h"
#include "rows/tuple.h"

namespace pgq {

void
insert_record(RingName ring, Datum *values, bool *nulls, int n, int16 segment)
{
	const Segment &current = look_at_tables().current(ring);
	Relation rel = table_open(current.heap, RowExclusiveLock);
	values[segment - 1] = Int16GetDatum(static_cast<int16>(current.number));
	nulls[segment - 1] = false;
	HeapTuple tuple = TupleFormer(rel).form(values, nulls, n);
	heap_insert(rel, tuple, GetCurrentCommandId(true), 0, nullptr);
	insert_record_index_entries(rel, current.number, tuple);
	table_close(rel, NoLock);
}

} // namespace pgq
