#include "rows/finished_job.h"

namespace pgq {

void
add_finished_job(Records &records, const JobRow &row, const char *outcome, const char *worker,
				 const Datum *result)
{
	records.add(kFinishedRing, kFinishedSegment, [&](NewRecord<FinishedColumn> &record) {
		record.copy(kFinishedJobId, row, kJobId);
		record.set(kFinishedAt, TimestampTzGetDatum(wall_now()));
		record.copy(kFinishedEnqueuedAt, row, kJobEnqueuedAt);
		record.copy(kFinishedRunAt, row, kJobRunAt);
		record.copy(kFinishedQueueId, row, kJobQueueId);
		record.copy(kFinishedPriority, row, kJobPriority);
		record.copy(kFinishedAttempts, row, kJobAttempts);
		record.set_text(kFinishedOutcome, outcome);
		record.copy(kFinishedPayload, row, kJobPayload);
		if (worker != nullptr)
			record.set_text(kFinishedWorker, worker);
		if (result != nullptr)
			record.set(kFinishedResult, *result);
		record.copy(kFinishedMaxAttempts, row, kJobMaxAttempts);
		record.copy(kFinishedGroupKey, row, kJobGroupKey);
		record.copy(kFinishedUniqueKey, row, kJobUniqueKey);
		record.copy(kFinishedLastError, row, kJobLastError);
		record.copy(kFinishedHeaders, row, kJobHeaders);
		record.copy(kFinishedBatch, row, kJobBatch);
		record.copy(kFinishedParents, row, kJobParents);
	});
}

} // namespace pgq
