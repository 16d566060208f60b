/*
 * The three transactions of a handler's worker: claim jobs (T1), call the handler and acknowledge
 * its jobs (T2), and, if T2 has failed, record why (T3). README.md in this folder says who sees
 * what, and what happens if the process ends in between.
 */
#pragma once

#include "catalog/handler_row.h"
#include "claim/claimed_job.h"

namespace pgq {

/* A job that the worker has claimed. */
struct HandledJob
{
	QueueRef ref;
	Lease *lease;
	uint64 serial;
	int64 job_id;
	int64 token;
	/* The columns of pgq_ext.claimed_job. */
	Datum values[kClaimedColumns];
	bool nulls[kClaimedColumns];
	bool begun; /* a call with the job has begun; if the lease is lost now, the attempt counts */
	bool ended; /* the worker has nothing more to do with the job */
};

struct HandledJobs
{
	HandledJob *jobs; /* sorted by id */
	int n;
	MemoryContext memory; /* memory of the jobs; the caller resets it */
	int64 claimed_at;	  /* monotonic: a time before the leases began */
	int64 extended_at;	  /* monotonic: when the leases were claimed or last extended */
	int64 lease_time;	  /* microseconds */
	bool stale;			  /* the last call has found that a lease is not current any more */
};

/*
 * T1: claim at most `most` jobs of the queue, as the current role, and commit. Without a job, read
 * due jobs into memory if needed. Raises the errors of pgq_claim.
 */
void claim_handled(const HandlerRow &handler, int most, HandledJobs *jobs);

/*
 * T2: call the handler for the jobs [first, first + n), and acknowledge those that the call has not
 * ended itself. Raises an error if the call, an ack or the commit fails; the caller aborts the
 * transaction. *stale: set to true before an error that says that a lease is not current any more.
 */
void call_handler(const HandlerRow &handler, HandledJob *first, int n, bool *stale);

/* T3: end the attempt of the job as failed, with this error. */
void fail_handled(const HandledJob &job, const char *error);

/*
 * T3: give n jobs back uncounted, if they have not ended; they can be claimed after `delay`
 * microseconds.
 */
void release_handled(const HandledJob *first, int n, int64 delay);

/* Extend the leases of jobs that have not ended, in a transaction. */
void extend_handled(const HandledJob *first, int n, int64 lease_time);

/* Note as which roles the worker runs. Called after the login, before the first call. */
void note_own_roles();

/*
 * Undo the changes that a call can leave in the session: do the parts of DISCARD ALL, and end the
 * session-bound leases and locks of the call. Uses a transaction of its own.
 */
void clean_session();

/* Begin a transaction that can write, at the role's isolation level or READ COMMITTED. */
void begin_handler_transaction(bool read_committed);

} // namespace pgq
