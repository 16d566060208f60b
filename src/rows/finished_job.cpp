#include "rows/finished_job.h"

#include "rows/record.h"

namespace pgq {

void
insert_finished_job(const JobRow &row, const char *outcome, const char *worker, const Datum *result)
{
	NewRecord<FinishedColumn, kFinishedColumns> record;
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
	insert_record(kFinishedRing, record, kFinishedSegment);
}

} // namespace pgq
