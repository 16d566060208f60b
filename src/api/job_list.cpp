#include "api/job_list.h"

#include "api/args.h"
#include "jobs/finish.h"

#include <algorithm>

namespace pgq {

static constexpr int kStaleLease = MAKE_SQLSTATE('P', 'Q', '0', '0', '1');

void
complain_stale(int64 job_id, int64 token)
{
	note_stale_call(job_id);
	ereport(
		ERROR,
		(errcode(kStaleLease),
		 errmsg("lease %lld of job %lld is not current", static_cast<long long>(token),
				static_cast<long long>(job_id)),
		 errdetail("The lease has expired, its job has ended, or it is not a lease of that job."),
		 errhint("Roll back this transaction: another worker may have the job.")));
}

/* Sort the list by job id. Does nothing if the list is sorted already, as most lists are. */
static void
sort_jobs(const JobList &jobs)
{
	struct Pair
	{
		Datum id;
		Datum token;
	};
	auto *pairs = static_cast<Pair *>(palloc(jobs.n * sizeof(Pair)));
	for (int i = 0; i < jobs.n; i++)
		pairs[i] = {jobs.ids[i], jobs.tokens[i]};
	std::sort(pairs, pairs + jobs.n, [](const Pair &a, const Pair &b) {
		return DatumGetInt64(a.id) < DatumGetInt64(b.id);
	});
	for (int i = 0; i < jobs.n; i++)
	{
		jobs.ids[i] = pairs[i].id;
		jobs.tokens[i] = pairs[i].token;
	}
}

/* Raise 54000 if the list is too long. */
static void
check_length(const JobList &jobs)
{
	static constexpr int kMost = 10000;
	if (jobs.n > kMost)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("job_ids has too many elements"),
				 errdetail("The array has %d elements; at most %d are allowed.", jobs.n, kMost)));
}

JobList
read_jobs(FunctionCallInfo fcinfo)
{
	JobList jobs{};
	if (!given(fcinfo, 0) && !given(fcinfo, 1))
		return jobs;
	jobs.n = elements_of(required(fcinfo, 0, "job_ids"), INT8OID, "job_ids", &jobs.ids);
	int n_tokens = elements_of(required(fcinfo, 1, "leases"), INT8OID, "leases", &jobs.tokens);
	if (jobs.n != n_tokens)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("job_ids and leases must have the same number of elements"),
						errdetail("job_ids has %d elements, leases has %d.", jobs.n, n_tokens)));
	check_length(jobs);
	sort_jobs(jobs);
	return jobs;
}

JobList
read_ids(FunctionCallInfo fcinfo)
{
	JobList jobs{};
	if (!given(fcinfo, 0))
		return jobs;
	jobs.n = elements_of(PG_GETARG_DATUM(0), INT8OID, "job_ids", &jobs.ids);
	check_length(jobs);
	std::sort(jobs.ids, jobs.ids + jobs.n,
			  [](Datum a, Datum b) { return DatumGetInt64(a) < DatumGetInt64(b); });
	return jobs;
}

JobList
read_job(FunctionCallInfo fcinfo)
{
	if (!given(fcinfo, 0) && !given(fcinfo, 1))
		return {};
	auto *job = static_cast<Datum *>(palloc(2 * sizeof(Datum)));
	job[0] = required(fcinfo, 0, "job_id");
	job[1] = required(fcinfo, 1, "lease");
	return {.ids = &job[0], .tokens = &job[1], .n = 1};
}

} // namespace pgq
