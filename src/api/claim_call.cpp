#include "api/claim_call.h"

#include "api/args.h"
#include "api/job_list.h"
#include "catalog/queue_row.h"
#include "load/attach.h"

namespace pgq {

static constexpr int kMaxJobs = 10000;

/* ---- arguments ---- */

/*
 * Read the options of a lease: lease_time is argument number `lease`, and worker is the next
 * argument.
 */
static ClaimOptions
read_lease_options(FunctionCallInfo fcinfo, int lease)
{
	ClaimOptions options{.max_jobs = 1, .wait = 0, .lease_time = 0, .worker = application_name};
	if (given(fcinfo, lease))
		options.lease_time = lease_time(PG_GETARG_DATUM(lease), "lease_time");
	if (given(fcinfo, lease + 1))
		options.worker = clipped(PG_GETARG_DATUM(lease + 1), kWorkerNameMax);
	if (options.worker == nullptr)
		options.worker = "";
	return options;
}

/*
 * Read the options of a lease, as read_lease_options() does, and max_jobs, which is argument number
 * `max_jobs`.
 */
static ClaimOptions
read_options(FunctionCallInfo fcinfo, int max_jobs, int lease)
{
	int most =
		given(fcinfo, max_jobs) ? in_range(PG_GETARG_INT32(max_jobs), 1, kMaxJobs, "max_jobs") : 1;
	ClaimOptions options = read_lease_options(fcinfo, lease);
	options.max_jobs = most;
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

/* ---- the calls ---- */

void
call_claim(FunctionCallInfo fcinfo, const ClaimReceiver &receiver)
{
	start_write("pgq_claim()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	ClaimOptions options = read_options_with_wait(fcinfo);
	QueueRef ref = resolve_queue(tables(), name, Permission::kClaim);
	claim_for(receiver, options, &ref, &name, 1);
}

void
call_claim_any(FunctionCallInfo fcinfo, const ClaimReceiver &receiver)
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
	claim_for(receiver, options, list.refs, list.names, list.n);
}

/*
 * Acknowledge the jobs, and claim from the queue. The claim does not wait for jobs: the acks would
 * stay uncommitted during the wait.
 */
static void
ack_and_claim(const JobList &jobs, char *name, ClaimOptions options, const ClaimReceiver &receiver)
{
	QueueRef ref = resolve_queue(tables(), name, Permission::kClaim);
	options.for_more = jobs.n > 0;
	ack_jobs(jobs, [&](int i, bool acked) {
		if (!acked)
			complain_stale(jobs.id(i), jobs.token(i));
	});
	claim_for(receiver, options, &ref, &name, 1);
}

void
call_ack_claim(FunctionCallInfo fcinfo, const ClaimReceiver &receiver)
{
	start_write("pgq_ack_claim()");
	JobList jobs = read_jobs(fcinfo);
	char *name = queue_name(required(fcinfo, 2, "queue"));
	ack_and_claim(jobs, name, read_options(fcinfo, 3, 4), receiver);
}

void
call_ack_next(FunctionCallInfo fcinfo, const ClaimReceiver &receiver)
{
	start_write("pgq_ack_next()");
	JobList job = read_job(fcinfo);
	char *name = queue_name(required(fcinfo, 2, "queue"));
	ack_and_claim(job, name, read_lease_options(fcinfo, 3), receiver);
}

} // namespace pgq
