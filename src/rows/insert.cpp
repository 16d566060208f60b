#include "rows/insert.h"

#include "catalog/shape.h"
#include "rows/index.h"
#include "rows/job_ids.h"
#include "rows/tuple.h"

namespace pgq {

/* As hint_of() of the row that was inserted at `tid`. */
static Hint
hint_of_new(const NewJob &job, const ItemPointerData &tid, int segment)
{
	auto get = [&](JobColumn column) { return job.values[column - 1]; };
	Key key{DatumGetInt32(get(kJobPriority)), DatumGetTimestampTz(get(kJobRunAt)),
			DatumGetInt64(get(kJobId))};
	return {.key = key,
			.place = place_of(tid, segment),
			.delayed = is_delayed(key.run_at, DatumGetTimestampTz(get(kJobEnqueuedAt)),
								  DatumGetInt32(get(kJobAttempts))),
			.group = job.nulls[kJobGroupId - 1] ? 0 : DatumGetInt64(get(kJobGroupId))};
}

static constinit KeptDescriptors kept_descriptors = {};

void
insert_jobs(NewJob *jobs, int n, Hint *hints)
{
	const Tables &t = look_at_tables();
	const Segment &segment = t.current(kJobRing);
	Relation rel = open_segment(segment, RowExclusiveLock);
	TupleFormer former(rel, &kept_descriptors);
	auto *tuples = static_cast<HeapTuple *>(palloc(n * sizeof(HeapTuple)));
	for (int i = 0; i < n; i++)
	{
		if (jobs[i].nulls[kJobId - 1])
			jobs[i].set(kJobId, Int64GetDatum(new_job_id()));
		jobs[i].set(kJobSegment, Int16GetDatum(segment.number));
		tuples[i] = former.form(jobs[i].values, jobs[i].nulls, kJobColumns);
	}
	insert_tuples(rel, tuples, n);
	insert_job_index_entries(rel, segment.number, tuples, n, true);
	for (int i = 0; i < n; i++)
		hints[i] = hint_of_new(jobs[i], tuples[i]->t_self, segment.number);
	table_close(rel, NoLock);
}

} // namespace pgq
