#include "rows/insert.h"

#include "catalog/shape.h"
#include "rows/index.h"
#include "rows/tuple.h"

namespace pgq {

int64
new_job_id()
{
	return nextval_internal(look_at_tables().job_id_seq, false);
}

void
insert_jobs(NewJob *jobs, int n, Hint *hints)
{
	const Tables &t = look_at_tables();
	const Segment &segment = t.current(kJobRing);
	Relation rel = open_segment(segment, RowExclusiveLock);
	TupleFormer former(rel);
	auto *tuples = static_cast<HeapTuple *>(palloc(n * sizeof(HeapTuple)));
	for (int i = 0; i < n; i++)
	{
		number_job(&jobs[i]);
		jobs[i].set(kJobSegment, Int16GetDatum(segment.number));
		tuples[i] = former.form(jobs[i].values, jobs[i].nulls, kJobColumns);
	}
	insert_tuples(rel, tuples, n);
	insert_job_index_entries(rel, segment.number, tuples, n, true);
	for (int i = 0; i < n; i++)
		hints[i] = hint_of(tuples[i], RelationGetDescr(rel), static_cast<uint16>(segment.number));
	table_close(rel, NoLock);
}

} // namespace pgq
