/* A list of jobs and their leases, passed as two arrays. */
#pragma once

#include "jobs/finish.h"
#include "pg/pg.h"

namespace pgq {

struct JobList
{
	Datum *ids;
	Datum *tokens;
	int n;

	int64 id(int i) const { return DatumGetInt64(ids[i]); }
	int64 token(int i) const { return DatumGetInt64(tokens[i]); }
};

/*
 * Read the list from the first two arguments, and sort it by job id. All calls that pin several
 * leases pin them in the order of job ids, so two calls cannot deadlock. Two NULL arguments, which
 * array_agg() returns for no rows, are an empty list. Raises 22004 if only one of the arguments is
 * NULL, 22023 if the arrays have different lengths, 54000 for more than 10,000 jobs.
 */
JobList read_jobs(FunctionCallInfo fcinfo);

/*
 * Read a list of ids, without leases, from the first argument, and sort it, as read_jobs() does.
 * NULL is an empty list. Raises 54000 for more than 10,000 jobs.
 */
JobList read_ids(FunctionCallInfo fcinfo);

/*
 * Read a list of one job from the first two arguments, its id and its lease. If both are NULL, the
 * list is empty. Raises 22004 if only one of them is NULL.
 */
JobList read_job(FunctionCallInfo fcinfo);

/* Raise error PQ001, and count this call in the counter of calls with a stale lease. */
[[noreturn]] void complain_stale(int64 job_id, int64 token);

/*
 * Acknowledge the jobs, and write the records of all jobs at once. Calls note(i, acked) for each
 * job; acked is false if the job's lease is stale.
 */
template <typename Note>
void
ack_jobs(const JobList &jobs, Note note)
{
	SegmentSet segments(RowExclusiveLock);
	Records records;
	const Ack *acks = take_all_in_hand(segments, jobs.ids, jobs.tokens, jobs.n);
	for (int i = 0; i < jobs.n; i++)
	{
		note(i, ack_job(segments, records, acks[i]));
		CHECK_FOR_INTERRUPTS();
	}
	records.write();
	segments.close_unwritten();
}

} // namespace pgq
