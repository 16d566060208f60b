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

int
begin_handled(HandledJob *first, int n)
{
	int begun = 0;
	for (int i = 0; i < n; i++)
	{
		first[i].begun = begin_work(first[i].ref, first[i].lease, first[i].serial);
		if (first[i].begun)
			first[begun++] = first[i];
		else
			give_back_handled(&first[i]);
	}
	return begun;
}

void
stop_handled(HandledJob *first, int n)
{
	for (int i = 0; i < n; i++)
	{
		stop_work(first[i].ref, first[i].lease, first[i].serial);
		first[i].begun = false;
	}
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
