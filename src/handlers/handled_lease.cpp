#include "handlers/handled_lease.h"

#include "claim/session_lease.h"
#include "txn/effects.h"

namespace pgq {

void
give_back_handled(HandledJob *job)
{
	give_back_unbegun(job->ref, job->lease, job->serial);
	job->ended = true;
}

/*
 * Give those of the n jobs back for which stays(job) is false. Returns how many are left; these
 * come first, in the same order.
 */
template <typename Stays>
static int
keep_those(HandledJob *first, int n, Stays stays)
{
	int kept = 0;
	for (int i = 0; i < n; i++)
		if (stays(&first[i]))
			first[kept++] = first[i];
		else
			give_back_handled(&first[i]);
	return kept;
}

int
begin_handled(HandledJob *first, int n, uint64 call)
{
	return keep_those(first, n, [&](HandledJob *job) {
		job->begun = begin_work(job->ref, job->lease, job->serial, call, n > 1);
		return job->begun;
	});
}

int
stop_handled(HandledJob *first, int n)
{
	return keep_those(first, n, [&](HandledJob *job) {
		job->begun = false;
		return stop_work(job->ref, job->lease, job->serial);
	});
}

void
lose_handled(const HandledJob &job)
{
	lose_session_lease(job.ref, job.lease, job.serial);
}

void
leave_handled(const HandledJobs &jobs)
{
	for (int i = 0; i < jobs.n; i++)
	{
		const HandledJob &job = jobs.jobs[i];
		if (job.ended)
			continue;
		if (!job.begun)
			give_back_unbegun(job.ref, job.lease, job.serial);
		else
			lose_handled(job);
	}
}

} // namespace pgq
