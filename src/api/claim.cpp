/*
 * pgq_claim and pgq_claim_any.
 */
#include "jobs/claim.h"

#include "api/args.h"
#include "pg/stop_point.h"
#include "catalog/queue_row.h"

namespace pgq {

static constexpr int kMaxJobs = 10000;
static constexpr int64 kWaitMax = 60 * USECS_PER_SEC;

/* Columns of pgq_ext.claimed_job, in their order. */
enum ClaimedColumn
{
	kClaimedJobId,
	kClaimedLease,
	kClaimedQueue,
	kClaimedPayload,
	kClaimedHeaders,
	kClaimedGroupKey,
	kClaimedPriority,
	kClaimedAttempt,
	kClaimedMaxAttempts,
	kClaimedEnqueuedAt,
	kClaimedRunAt,
	kClaimedLeaseExpiresAt,
	kClaimedLastError,
	kClaimedColumns
};

static void
return_job(void *result, const QueueRef &ref, const QueueOptions &options, const JobRow &row,
		   const Ready &ready)
{
	auto *rows = static_cast<ReturnSetInfo *>(result);
	Datum values[kClaimedColumns] = {};
	bool nulls[kClaimedColumns] = {};
	auto copy = [&](ClaimedColumn to, JobColumn from) {
		values[to] = row.value(from);
		nulls[to] = row.is_null(from);
	};
	/* A toast pointer must not outlive the lock on its segment (C3). */
	auto copy_long = [&](ClaimedColumn to, JobColumn from) {
		copy(to, from);
		if (!nulls[to])
			values[to] = PointerGetDatum(PG_DETOAST_DATUM_PACKED(row.value(from)));
	};
	copy(kClaimedJobId, kJobId);
	values[kClaimedLease] = Int64GetDatum(ready.token);
	values[kClaimedQueue] = CStringGetTextDatum(ref.queue->name);
	copy_long(kClaimedPayload, kJobPayload);
	copy_long(kClaimedHeaders, kJobHeaders);
	copy_long(kClaimedGroupKey, kJobGroupKey);
	copy(kClaimedPriority, kJobPriority);
	values[kClaimedAttempt] = Int32GetDatum(ready.hand_out.attempt);
	values[kClaimedMaxAttempts] = Int32GetDatum(row.max_attempts(options.max_attempts));
	copy(kClaimedEnqueuedAt, kJobEnqueuedAt);
	copy(kClaimedRunAt, kJobRunAt);
	values[kClaimedLeaseExpiresAt] = TimestampTzGetDatum(ready.now + ready.hand_out.lease_time);
	nulls[kClaimedLastError] = row.is_null(kJobLastError);
	if (!nulls[kClaimedLastError])
		values[kClaimedLastError] = clipped_error(row.value(kJobLastError));
	tuplestore_putvalues(rows->setResult, rows->setDesc, values, nulls);
}

static void
claim_and_return(FunctionCallInfo fcinfo, const ClaimOptions &options, const QueueRef *refs,
				 char *const *names, int n)
{
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	Claim claim;
	claim.options = &options;
	claim.ready = static_cast<Ready *>(palloc(options.max_jobs * sizeof(Ready)));
	claim.n = 0;
	claim.give = return_job;
	claim.result = fcinfo->resultinfo;
	claim_jobs(refs, names, n, &claim);
	stop_point("claim-hand-out");
	hand_out_all(claim);
}

static ClaimOptions
read_options(FunctionCallInfo fcinfo)
{
	ClaimOptions options{.max_jobs = 1, .wait = 0, .lease_time = 0, .worker = application_name};
	if (given(fcinfo, 1))
		options.max_jobs = in_range(PG_GETARG_INT32(1), 1, kMaxJobs, "max_jobs");
	if (given(fcinfo, 2))
		options.wait = duration(PG_GETARG_DATUM(2), "wait", kWaitMax);
	if (given(fcinfo, 3))
		options.lease_time = lease_time(PG_GETARG_DATUM(3), "lease_time");
	if (given(fcinfo, 4))
		options.worker = clipped(PG_GETARG_DATUM(4), kWorkerNameMax);
	not_yet(given(fcinfo, 5) && PG_GETARG_BOOL(5), "session_bound");
	if (options.worker == nullptr)
		options.worker = "";
	return options;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_claim);
PG_FUNCTION_INFO_V1(pgq_claim_any);

PGDLLEXPORT Datum
pgq_claim(PG_FUNCTION_ARGS)
{
	start_write("pgq_claim()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	ClaimOptions options = read_options(fcinfo);
	QueueRef ref = resolve_queue(name);
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
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("queues has too many elements"),
						errdetail("It has %d; at most %d are possible.", n, max_claim_queues),
						errhint("Raise pgq_ext.max_claim_queues and restart the server.")));
	ClaimOptions options = read_options(fcinfo);
	auto *refs = static_cast<QueueRef *>(palloc(n * sizeof(QueueRef)));
	auto **names = static_cast<char **>(palloc(n * sizeof(char *)));
	int distinct = 0;
	for (int i = 0; i < n; i++)
	{
		char *name = queue_name(elements[i]);
		QueueRef ref = resolve_queue(name);
		bool seen = false;
		for (int j = 0; j < distinct; j++)
			seen |= refs[j].queue == ref.queue;
		if (seen)
			continue;
		names[distinct] = name;
		refs[distinct++] = ref;
	}
	claim_and_return(fcinfo, options, refs, names, distinct);
	return (Datum) 0;
}
}
