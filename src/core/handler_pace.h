/*
 * The pace of a queue's handler: how many workers may run jobs of the queue, when the scheduler
 * starts one more worker, and when the next call may begin.
 *
 * A *place* is the permission for one worker to run jobs of the queue. The scheduler takes the
 * place for a worker before it registers the worker, so a queue never has more workers than its
 * handler allows, also while workers are starting.
 *
 * Needs no server header and takes no lock. Times named `wall` are of the wall clock, all others
 * are monotonic; all are microseconds.
 */
#pragma once

#include <algorithm>
#include <cstdint>

namespace pgq {

/* A result of a call, for the counters and the pace of the handler. */
struct CallResult
{
	bool failed;
	int sqlstate;	   /* of the error, if the call has failed */
	int64_t job_id;	   /* the job, if the call has only one; 0: the call has several jobs */
	const char *error; /* message, if the call has failed */
};

struct HandlerPace
{
	int32_t workers; /* how many workers the definition allows; 0: the handler may not run */
	int32_t places;	 /* places that are taken */
	/* ---- starting workers ---- */
	int64_t claimable_since; /* since when jobs wait for a further worker; 0: none does */
	int64_t last_start;
	int64_t start_after; /* no worker is started before this time */
	int32_t idle_starts; /* number of workers in a row that have ended without any job */
	/* ---- calls ---- */
	int64_t call_after;		 /* no call begins before this time */
	int64_t call_after_wall; /* the same as a time of the wall clock, for views */
	int32_t failures_in_row; /* failed calls in a row, of different jobs, with the same SQLSTATE */
	int32_t sqlstate;
	int64_t failed_job;	   /* the job of the last failed call */
	int32_t single_calls;  /* number of the next hand-outs that are single, whatever `batch` says */
	int32_t server_faults; /* number of calls in a row that have failed because of the server */
	int64_t faulty_job;	   /* the job of the last call that has failed because of the server */
	bool others_succeed;   /* since that call, a call of another job has succeeded */
	/* ---- counters since the slot was attached ---- */
	int64_t calls;
	int64_t failures;

	/*
	 * Begin with the allowed number of workers, and forget all delays: the definition of the
	 * handler has changed, or the cause of the delays is gone.
	 */
	void restart(int32_t allowed_workers)
	{
		workers = allowed_workers;
		failures_in_row = server_faults = idle_starts = 0;
		call_after = start_after = 0;
	}

	/*
	 * Return whether the last calls have failed so often that each call has to wait after the one
	 * before.
	 */
	bool is_slow() const { return failures_in_row >= kSlowAfter; }

	/* Return how many workers may run jobs of the queue at a time. */
	int32_t allowed() const { return is_slow() ? std::min(workers, 1) : workers; }

	bool has_free_place() const { return places < allowed(); }

	/* Take a place, if one is free and a call may begin. */
	bool take_place(int64_t now)
	{
		if (!has_room(now))
			return false;
		places++;
		return true;
	}

	/* Return whether a worker could take a place now. */
	bool has_room(int64_t now) const { return has_free_place() && now >= call_after; }

	/* Return whether a worker that has a place may begin the next call. */
	bool may_call(int64_t now) const { return places <= allowed() && now >= call_after; }

	/* Return how many jobs the next call may have. */
	int32_t next_batch(int32_t batch) const { return is_slow() || single_calls > 0 ? 1 : batch; }

	/*
	 * Return the time at which the scheduler should start one more worker; INT64_MAX: not now.
	 * claimable: a claim would find a job, and no claim waits for one.
	 */
	int64_t start_at(bool claimable, int64_t now)
	{
		if (!claimable || !has_free_place())
		{
			claimable_since = 0;
			return INT64_MAX;
		}
		if (claimable_since == 0)
			claimable_since = now;
		int64_t at =
			places == 0 ? claimable_since : std::max(claimable_since, last_start) + kStartDelay;
		return std::max({at, start_after, call_after});
	}

	/* Note the end of a worker that was started for this queue. */
	void note_worker_end(bool had_jobs, int64_t now)
	{
		idle_starts = had_jobs ? 0 : std::min(idle_starts + 1, 16);
		if (idle_starts > 0)
			start_after = now + delay_of(idle_starts - 1, kLongestRest);
	}

	/*
	 * Count a call. If kSlowAfter calls of different jobs have failed in a row with the same
	 * SQLSTATE, the next call has to wait 1 s, then 2 s ... 30 s; a success ends that.
	 */
	void note_call(const CallResult &call, int64_t now, int64_t wall);

	/*
	 * Let the queue's handler rest for 1 s, 2 s ... 1 min, because the server seems to have failed,
	 * not the job. job_id: 0 if a claim has failed. Return false, without a rest, if the job itself
	 * seems to be the cause: its call has failed like this before, and calls of other jobs have
	 * succeeded since.
	 */
	bool note_server_fault(int64_t job_id, int64_t now, int64_t wall)
	{
		if (job_id != 0 && job_id == faulty_job && others_succeed)
			return false;
		faulty_job = job_id;
		others_succeed = false;
		rest(delay_of(std::min(server_faults++, 16), kLongestRest), now, wall);
		return true;
	}

	void rest(int64_t delay, int64_t now, int64_t wall)
	{
		call_after = now + delay;
		call_after_wall = wall + delay;
	}

	/* Return 1 s, doubled `times` times, but at most `most`. */
	static int64_t delay_of(int times, int64_t most)
	{
		return std::min(kSecond << std::min(times, 20), most);
	}

	static constexpr int64_t kSecond = 1000 * 1000;
	static constexpr int64_t kLongestRest = 60 * kSecond;
	static constexpr int kSlowAfter = 20;
	static constexpr int64_t kSlowest = 30 * kSecond;
	static constexpr int64_t kStartDelay = 50 * 1000;
};

inline void
HandlerPace::note_call(const CallResult &call, int64_t now, int64_t wall)
{
	calls++;
	if (!call.failed)
	{
		failures_in_row = server_faults = 0;
		others_succeed = true;
		single_calls = std::max(single_calls - 1, 0);
		return;
	}
	failures++;
	/*
	 * job_id is 0 if the call had several jobs. The failure of such a call does not count in
	 * failures_in_row: its jobs are then called one by one, and the failures of those calls count.
	 */
	if (call.job_id == 0)
		return;
	bool other_job = call.job_id != failed_job;
	if (call.sqlstate != sqlstate)
		failures_in_row = 1;
	else if (other_job)
		failures_in_row = std::min(failures_in_row + 1, 1000);
	sqlstate = call.sqlstate;
	failed_job = call.job_id;
	if (is_slow())
		rest(delay_of(failures_in_row - kSlowAfter, kSlowest), now, wall);
}

} // namespace pgq
