/*
 * pgq_claim, pgq_claim_any and pgq_ack_claim.
 */
#include "api/args.h"
#include "api/job_list.h"
#include "api/result_rows.h"
#include "catalog/queue_row.h"
#include "claim/session_lease.h"
#include "claim/take.h"
#include "claim/wait.h"
#include "jobs/finish.h"
#include "load/attach.h"
#include "pg/stop_point.h"
#include "txn/effects.h"

namespace pgq {

static constexpr int kMaxJobs = 10000;

namespace {
/* Attributes of pgq_ext.claimed_job, in order. */
enum class ClaimedColumn
{
	kJobId,
	kLease,
	kQueue,
	kPayload,
	kHeaders,
	kGroupKey,
	kPriority,
	kAttempt,
	kMaxAttempts,
	kEnqueuedAt,
	kRunAt,
	kLeaseExpiresAt,
	kLastError,
	kProgress,
	kColumns
};

} // namespace

static constexpr Column claimed_columns[] = {
	{"job_id", kInt8},		  {"lease", kInt8},
	{"queue", kText},		  {"payload", kJsonb},
	{"headers", kJsonb},	  {"group_key", kText},
	{"priority", kInt4},	  {"attempt", kInt4},
	{"max_attempts", kInt4},  {"enqueued_at", kTimestamptz},
	{"run_at", kTimestamptz}, {"lease_expires_at", kTimestamptz},
	{"last_error", kText},	  {"progress", kJsonb},
};
static_assert(lengthof(claimed_columns) == static_cast<int>(ClaimedColumn::kColumns));

static void
return_job(void *result, const QueueRef &ref, const QueueOptions &options, const JobRow &row,
		   const Ready &ready)
{
	using enum ClaimedColumn;
	ResultRow<ClaimedColumn> job;
	auto copy = [&](ClaimedColumn to, JobColumn from) {
		if (!row.is_null(from))
			job.set_datum(to, row.value(from));
	};
	/*
	 * Copy long values: a toast pointer must not outlive the lock on its segment
	 * (protocol: detoast-then-unlock).
	 */
	auto copy_long = [&](ClaimedColumn to, JobColumn from) {
		if (!row.is_null(from))
			job.set_datum(to, PointerGetDatum(PG_DETOAST_DATUM_PACKED(row.value(from))));
	};
	copy(kJobId, JobColumn::kJobId);
	job.set(kLease, ready.token);
	QueueName queue;
	(void) read_name(ref.queue, &queue);
	job.set(kQueue, queue.text);
	copy_long(kPayload, kJobPayload);
	copy_long(kHeaders, kJobHeaders);
	copy_long(kGroupKey, kJobGroupKey);
	copy(kPriority, kJobPriority);
	job.set(kAttempt, ready.hand_out.attempt);
	job.set(kMaxAttempts, row.max_attempts(options.max_attempts));
	copy(kEnqueuedAt, kJobEnqueuedAt);
	copy(kRunAt, kJobRunAt);
	job.set(kLeaseExpiresAt, ready.lease_expires_at());
	if (!row.is_null(kJobLastError))
		job.set_datum(kLastError, clipped_error(row.value(kJobLastError)));
	copy_long(kProgress, kJobProgress);
	static_cast<ResultRows *>(result)->put(job);
}

/*
 * Claim until at least one job is handed out, or no job is available. If the claim has taken jobs,
 * but none of them may be handed out any more, claim again.
 */
static HandedOut
claim_until_handed_out(const QueueRef *refs, char *const *names, int n, Claim *claim,
					   ResultRows *result)
{
	for (;;)
	{
		claim_jobs(refs, names, n, claim);
		stop_point("claim-hand-out");
		require_rights(refs, names, n);
		HandedOut out = hand_out_all(claim);
		if (out.jobs > 0 || out.kept == 0)
			return out;
		result->clear();
		claim->n = 0;
	}
}

static void
claim_and_return(FunctionCallInfo fcinfo, const ClaimOptions &options, const QueueRef *refs,
				 char *const *names, int n)
{
	ResultRows result(fcinfo, "claimed_job", claimed_columns);
	Claim claim{};
	claim.options = &options;
	claim.ready = static_cast<Ready *>(palloc(options.max_jobs * sizeof(Ready)));
	if (options.session_bound)
		reserve_session_leases(options.max_jobs);
	claim.give = return_job;
	claim.result = &result;
	begin_claim_call();
	HandedOut out = claim_until_handed_out(refs, names, n, &claim, &result);
	note_empty(refs, claim);
	if (out.kept > 0 || out.renewed > 0)
		result.keep([&](int i, Datum *values) {
			values[static_cast<int>(ClaimedColumn::kLeaseExpiresAt)] =
				TimestampTzGetDatum(claim.ready[i].lease_expires_at());
			return claim.ready[i].handed_out;
		});
	end_claim_call();
}

/*
 * Read the options of a claim: max_jobs is argument number `max_jobs`, lease_time is argument
 * number `lease`, and worker is the next argument.
 */
static ClaimOptions
read_options(FunctionCallInfo fcinfo, int max_jobs, int lease)
{
	ClaimOptions options{.max_jobs = 1, .wait = 0, .lease_time = 0, .worker = application_name};
	if (given(fcinfo, max_jobs))
		options.max_jobs = in_range(PG_GETARG_INT32(max_jobs), 1, kMaxJobs, "max_jobs");
	if (given(fcinfo, lease))
		options.lease_time = lease_time(PG_GETARG_DATUM(lease), "lease_time");
	if (given(fcinfo, lease + 1))
		options.worker = clipped(PG_GETARG_DATUM(lease + 1), kWorkerNameMax);
	if (options.worker == nullptr)
		options.worker = "";
	return options;
}

/*
 * Read the options of a claim that may wait. The arguments are: queue or queues, max_jobs, wait,
 * lease_time, worker, session_bound.
 */
static ClaimOptions
read_options_with_wait(FunctionCallInfo fcinfo)
{
	ClaimOptions options = read_options(fcinfo, 1, 3);
	if (given(fcinfo, 2))
		options.wait = duration(PG_GETARG_DATUM(2), "wait", kWaitMax);
	options.session_bound = given(fcinfo, 5) && PG_GETARG_BOOL(5);
	return options;
}

namespace {
/* The queues to claim from, without duplicates, in the order of the argument. */
struct QueueList
{
	QueueRef *refs;
	char **names;
	int n;

	bool has(const QueueRef &ref) const
	{
		for (int i = 0; i < n; i++)
			if (refs[i].queue == ref.queue)
				return true;
		return false;
	}
};

} // namespace

static QueueList
find_queues(Datum *names, int n)
{
	QueueList list;
	list.refs = static_cast<QueueRef *>(palloc(n * sizeof(QueueRef)));
	list.names = static_cast<char **>(palloc(n * sizeof(char *)));
	list.n = 0;
	for (int i = 0; i < n; i++)
	{
		char *name = queue_name(names[i]);
		QueueRef ref = resolve_queue(tables(), name, Permission::kClaim);
		if (list.has(ref))
			continue;
		list.names[list.n] = name;
		list.refs[list.n++] = ref;
	}
	return list;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_claim);
PG_FUNCTION_INFO_V1(pgq_claim_any);
PG_FUNCTION_INFO_V1(pgq_ack_claim);

PGDLLEXPORT Datum
pgq_claim(PG_FUNCTION_ARGS)
{
	start_write("pgq_claim()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	ClaimOptions options = read_options_with_wait(fcinfo);
	QueueRef ref = resolve_queue(tables(), name, Permission::kClaim);
	claim_and_return(fcinfo, options, &ref, &name, 1);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_claim_any(PG_FUNCTION_ARGS)
{
	start_write("pgq_claim_any()");
	Datum *elements;
	int n = elements_of(required(fcinfo, 0, "queues"), TEXTOID, "queues", &elements);
	if (n > max_claim_queues)
		ereport(
			ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED), errmsg("too many queues in one call"),
			 errdetail("The array has %d elements; at most %d are allowed.", n, max_claim_queues),
			 errhint("Raise pgq_ext.max_claim_queues and restart the server.")));
	ClaimOptions options = read_options_with_wait(fcinfo);
	QueueList list = find_queues(elements, n);
	claim_and_return(fcinfo, options, list.refs, list.names, list.n);
	return (Datum) 0;
}

/*
 * Acknowledges jobs and claims new ones. Never waits for jobs: the acks would stay uncommitted
 * during the wait.
 */
PGDLLEXPORT Datum
pgq_ack_claim(PG_FUNCTION_ARGS)
{
	start_write("pgq_ack_claim()");
	JobList jobs = read_jobs(fcinfo);
	char *name = queue_name(required(fcinfo, 2, "queue"));
	ClaimOptions options = read_options(fcinfo, 3, 4);
	QueueRef ref = resolve_queue(tables(), name, Permission::kClaim);
	options.for_more = jobs.n > 0;
	ack_jobs(jobs, [&](int i, bool acked) {
		if (!acked)
			complain_stale(jobs.id(i), jobs.token(i));
	});
	claim_and_return(fcinfo, options, &ref, &name, 1);
	return (Datum) 0;
}
}
