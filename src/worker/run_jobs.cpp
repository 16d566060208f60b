#include "worker/run_jobs.h"

#include "engine/handler_slot.h"
#include "engine/hold.h"
#include "handlers/check.h"
#include "handlers/handled_lease.h"
#include "pg/clip.h"
#include "txn/effects.h"
#include "worker/call_error.h"
#include "worker/runner.h"
#include "worker/worker.h"

namespace pgq {

namespace {

/* The jobs of a claim while they run, and how they are called. */
struct Calls
{
	const HandlerRow &handler;
	const char *queue;
	HandledJobs *jobs;
	int64 timeout; /* microseconds */
	/* monotonic: a call that begins later may outlast the leases, because of max_runtime */
	int64 begin_before;
};

} // namespace

/* ---- a call ---- */

/*
 * Count the call, and let the handler slow down if too many calls have failed. job_id: 0 for a call
 * of several jobs.
 */
static void
count_call(const QueueRef &ref, int64 job_id, const CallError *error)
{
	CallResult result{};
	result.failed = error != nullptr;
	result.job_id = job_id;
	if (error != nullptr)
	{
		result.sqlstate = error->sqlstate;
		result.error = error->message;
	}
	(void) change_queue(ref, [&](QueueHold &hold) {
		hold->handler.note_call(result, monotonic_now(), wall_now());
	});
}

static void
report_call(const Calls &calls, int n)
{
	char text[NAMEDATALEN * 3 + 100];
	if (!pgstat_track_activities)
		return;
	snprintf(text, sizeof(text), "handler %s.%s of queue %s: %d job%s",
			 NameStr(calls.handler.schema_name), NameStr(calls.handler.function_name), calls.queue,
			 n, n == 1 ? "" : "s");
	pgstat_report_activity(STATE_RUNNING, text);
}

/*
 * Call the handler for the first *left jobs in one transaction (T2). Returns false, with the error,
 * if the transaction has failed. If jobs have ended since the claim or are being cancelled, there is
 * no call: these jobs were given back, *left is set to the number of the others, and the others come
 * first in the array.
 */
static bool
try_call(const Calls &calls, HandledJob *first, int *left, CallError *error)
{
	/* A signal can interrupt the call from begin_watching() to end_watching(). */
	volatile bool done = false;
	int n = *left;
	*error = {};
	report_call(calls, n);
	uint64 number =
		begin_handler_call({MyDatabaseId, first->ref.queue_id, n == 1 ? first->job_id : 0});
	begin_watching(calls.timeout);
	/*
	 * A cancel before begin_handler_call() does not know the number of the call, so check the
	 * leases again.
	 */
	*left = begin_handled(first, n, number);
	if (*left < n)
	{
		(void) end_watching();
		*left = stop_handled(first, *left);
		error->interrupted = Interrupted::kCancelled;
		return false;
	}
	PG_TRY();
	{
		call_handler(calls.handler, first, n, &calls.jobs->stale);
		done = true;
	}
	PG_CATCH();
	{
		*error = take_error(calls.jobs->memory, calls.timeout);
		error->stale = calls.jobs->stale;
	}
	PG_END_TRY();
	(void) end_watching();
	MemoryContextSwitchTo(calls.jobs->memory);
	for (int i = 0; i < n && done; i++)
		first[i].ended = true;
	clean_session();
	return done;
}

/*
 * Run T3. The watch ends a wait, for example for a transaction that has locked the row, after 10 s
 * or when the server stops. last: log an error. Returns whether the transaction has committed.
 */
template <typename Body>
static bool
try_to_end(const Calls &calls, bool last, Body body)
{
	static constexpr int64 kLongest = 10 * USECS_PER_SEC;
	volatile bool done = false;
	begin_watching(kLongest);
	PG_TRY();
	{
		body();
		done = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(calls.jobs->memory);
		if (last)
			EmitErrorReport();
		FlushErrorState();
		(void) end_watching();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	(void) end_watching();
	MemoryContextSwitchTo(calls.jobs->memory);
	return done;
}

/*
 * Run T3, three times if it fails. If all fail, the lease is lost, and the scheduler counts the
 * attempt.
 */
template <typename Body>
static void
end_attempt(const Calls &calls, HandledJob *job, Body body)
{
	static constexpr int kTries = 3;
	static constexpr long kNap = 100 * 1000;
	bool done = false;
	for (int i = 1; i <= kTries && !done && !(i > 1 && must_stop()); i++)
	{
		if (i > 1)
			pg_usleep(kNap);
		done = try_to_end(calls, i == kTries, body);
	}
	if (!done)
		lose_handled(*job);
	job->ended = true;
}

/* Return whether the handler is still as it should be, so that an error was not its own fault. */
static bool
is_handler_sound(const Calls &calls)
{
	volatile bool sound = false;
	PG_TRY();
	{
		bool changed;
		HandlerRow row = calls.handler;
		begin_handler_transaction(true);
		sound = !fault_of(&row, calls.queue, stamp(), &changed).any();
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(calls.jobs->memory);
	return sound;
}

/* ---- after a failed call of one job ---- */

/*
 * Give the job back and let the handler rest, because the server seems to be the cause of the
 * error. Returns false if the job itself seems to be the cause; then its attempt counts.
 */
static bool
give_back_for_server(const Calls &calls, HandledJob *job, const CallError &error)
{
	int64 now = monotonic_now();
	int64 until = now;
	bool servers = true;
	(void) change_queue(job->ref, [&](QueueHold &hold) {
		servers = hold->handler.note_server_fault(job->job_id, now, wall_now());
		copy_clipped(hold->handler.last_error, error.message);
		until = hold->handler.call_after;
	});
	if (servers)
		end_attempt(calls, job, [&] { release_handled(job, 1, until - now); });
	return servers;
}

static void
end_failed_call(const Calls &calls, HandledJob *job, const CallError &error)
{
	/*
	 * A session cancels the job, so do not run T3. If the cancel is undone, the scheduler counts the
	 * attempt (Lease::told). T3 looks for a later cancel itself (Intent::kEndUncancelled).
	 */
	if (error.interrupted == Interrupted::kCancelled ||
		leave_to_cancel(job->ref, job->lease, job->serial))
	{
		job->ended = true;
		return;
	}
	if (must_stop())
	{
		end_attempt(calls, job, [&] { release_handled(job, 1, 0); });
		proc_exit(0);
	}
	/* Check the handler first: an ack without the right to claim reports a stale lease. */
	if (!is_servers_fault(error.sqlstate) && !is_handler_sound(calls))
		return end_attempt(calls, job, [&] { release_handled(job, 1, 0); });
	/*
	 * The lease was not current, so no attempt is left to count. If the worker still has the lease,
	 * the call itself has made the ack fail; then the attempt counts as lost.
	 */
	if (error.stale)
	{
		lose_handled(*job);
		job->ended = true;
		return;
	}
	if (is_servers_fault(error.sqlstate) && give_back_for_server(calls, job, error))
		return;
	count_call(job->ref, job->job_id, &error);
	end_attempt(calls, job, [&] { fail_handled(*job, error.text); });
}

/*
 * Extend the leases of the jobs from `first` on, unless that was done less than 15 s ago. A lease is
 * at least 30 s longer than a call may take (lease_time_for()), so it outlives the next call.
 */
static void
extend_if_old(const Calls &calls, HandledJob *first)
{
	static constexpr int64 kOld = 15 * USECS_PER_SEC;
	HandledJobs *jobs = calls.jobs;
	int64 now = monotonic_now();
	if (now - jobs->extended_at < kOld)
		return;
	extend_handled(first, static_cast<int>(jobs->jobs + jobs->n - first), jobs->lease_time);
	jobs->extended_at = now;
}

/*
 * Run one job. A conflict with another transaction costs no attempt the first three times: the call
 * is repeated at once.
 */
static void
run_one(const Calls &calls, HandledJob *job)
{
	static constexpr int kMostConflicts = 3;
	CallError error{};
	for (int conflicts = 0;; conflicts++)
	{
		extend_if_old(calls, job);
		int left = 1;
		if (try_call(calls, job, &left, &error))
			return count_call(job->ref, job->job_id, nullptr);
		if (left == 0)
			return;
		if (!is_conflict(error) || conflicts == kMostConflicts || must_stop())
			break;
	}
	end_failed_call(calls, job, error);
}

/* ---- after a failed call of several jobs ---- */

/*
 * Give the jobs back whose calls have not begun. One of these jobs may be the cause of the failure,
 * so the same number of the queue's next hand-outs have one job each.
 */
static void
give_back_rest(HandledJob *first, int n)
{
	int given = 0;
	for (int i = 0; i < n; i++)
		if (!first[i].ended)
		{
			give_back_handled(&first[i]);
			given++;
		}
	if (given > 0)
		(void) change_queue(first->ref,
							[&](QueueHold &hold) { hold->handler.single_calls += given; });
}

/* Return whether other workers or claims wait for jobs of the queue. */
static bool
others_wait(const QueueRef &ref)
{
	bool wait = false;
	(void) look_at_queue(ref, [&](const Queue &queue) { wait = queue.waiting > 0; });
	return wait;
}

/* Return whether the handler was paused, suspended or dropped since the claim. */
static bool
must_not_call(const QueueRef &ref)
{
	bool active = false;
	(void) look_at_queue(ref, [&](const Queue &queue) {
		active = queue.handler.setup.state == HandlerSetup::kActive;
	});
	return !active;
}

/*
 * Run the jobs one by one, each in a transaction of its own. Do not keep jobs from others while a
 * call takes long: after a call of more than a second, or while others wait, give the rest back.
 * Also give the rest back when the leases may end during a call.
 */
static void
run_one_by_one(const Calls &calls)
{
	static constexpr int64 kLong = USECS_PER_SEC;
	HandledJobs *jobs = calls.jobs;
	if (must_not_call(jobs->jobs->ref) || !is_handler_sound(calls))
		return give_back_rest(jobs->jobs, jobs->n);
	for (int i = 0; i < jobs->n; i++)
	{
		HandledJob *job = &jobs->jobs[i];
		int64 begin = monotonic_now();
		/* At the exit of the process, the jobs that are left are given back. */
		if (must_stop())
			proc_exit(0);
		if (begin >= calls.begin_before)
			return give_back_rest(job, jobs->n - i);
		run_one(calls, job);
		if (monotonic_now() - begin > kLong || others_wait(job->ref) || must_not_call(job->ref))
			return give_back_rest(job + 1, jobs->n - i - 1);
	}
}

/* ---- all jobs of a claim ---- */

/*
 * Set the time that a call may take: the handler's timeout, or nine tenths of the queue's
 * max_runtime, if that is less. So the lease lasts until the error of the timeout is recorded.
 */
static void
limit_time(Calls *calls)
{
	calls->timeout = calls->handler.timeout;
	calls->begin_before = INT64_MAX;
	(void) look_at_queue(calls->jobs->jobs->ref, [&](const Queue &queue) {
		int64 most = queue.options.max_runtime;
		if (most == 0)
			return;
		calls->timeout = Min(calls->timeout, most - most / 10);
		calls->begin_before = calls->jobs->claimed_at + most - calls->timeout;
	});
}

/*
 * Decide what to do after a call of several jobs was undone. Returns true if jobs of the call were
 * cancelled or have ended in another way: then the other jobs are not the cause, and are called
 * together again.
 */
static bool
is_to_be_repeated(const Calls &calls, const CallError &error)
{
	HandledJobs *jobs = calls.jobs;
	int n = jobs->n;
	jobs->n = stop_handled(jobs->jobs, n);
	bool cancelled = error.interrupted == Interrupted::kCancelled;
	if (!cancelled && !(error.stale && jobs->n < n))
		return false;
	if (jobs->n > 0 && (must_not_call(jobs->jobs->ref) || !is_handler_sound(calls) ||
						monotonic_now() >= calls.begin_before))
		for (; jobs->n > 0; jobs->n--)
			give_back_handled(&jobs->jobs[jobs->n - 1]);
	return true;
}

/*
 * Call the handler for all jobs together, until one is left at most. Returns false, with the error,
 * if a call has failed.
 */
static bool
run_together(const Calls &calls, CallError *error)
{
	HandledJobs *jobs = calls.jobs;
	while (jobs->n > 1)
	{
		int left = jobs->n;
		extend_if_old(calls, jobs->jobs);
		if (try_call(calls, jobs->jobs, &left, error))
		{
			count_call(jobs->jobs->ref, 0, nullptr);
			jobs->n = 0;
		}
		else if (must_stop())
			return false;
		else if (left < jobs->n)
			jobs->n = left;
		else if (!is_to_be_repeated(calls, *error))
			return false;
	}
	return true;
}

void
run_jobs(const HandlerRow &handler, const char *queue, HandledJobs *jobs)
{
	Calls calls = {handler, queue, jobs, 0, 0};
	CallError error{};
	limit_time(&calls);
	if (run_together(calls, &error))
	{
		if (jobs->n == 1)
			run_one(calls, jobs->jobs);
		return;
	}
	if (must_stop())
	{
		/* No attempt is counted, also of jobs that are being cancelled. */
		jobs->n = stop_handled(jobs->jobs, jobs->n);
		end_attempt(calls, jobs->jobs, [&] { release_handled(jobs->jobs, jobs->n, 0); });
		proc_exit(0);
	}
	if (!error.stale)
		count_call(jobs->jobs->ref, 0, &error);
	if (jobs->n > 0)
		run_one_by_one(calls);
}

} // namespace pgq
