#include "handlers/call.h"

#include "catalog/owner_sql.h"
#include "catalog/queue_row.h"
#include "catalog/values.h"
#include "claim/call.h"
#include "engine/hold.h"
#include "jobs/finish.h"
#include "load/attach.h"
#include "load/refill.h"
#include "pg/stop_point.h"
#include "pg/virtual_xid.h"
#include "txn/effects.h"
#include "txn/session_end.h"

#include <algorithm>

namespace pgq {

void
begin_handler_transaction(bool read_committed)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	/* The role may have set other defaults for its sessions, such as read-only transactions. */
	XactReadOnly = false;
	if (read_committed)
		XactIsoLevel = XACT_READ_COMMITTED;
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
commit_handler_transaction()
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/*
 * Begin a transaction of the worker's own, which does not give up a wait for a lock because of a
 * setting of the role.
 */
static void
begin_own_transaction()
{
	begin_handler_transaction(true);
	if (LockTimeout > 0)
		(void) set_config_option("lock_timeout", "0", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL,
								 true, 0, false);
}

/*
 * Let the commit of this transaction wait for no standby. Without an xid it would not wait anyway;
 * a change of a setting costs as much as the rest of such a commit.
 */
static void
commit_locally_if_written()
{
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		commit_locally();
}

/* Commit a transaction of the worker's own, without a wait for a standby. */
static void
commit_own_transaction()
{
	commit_locally_if_written();
	commit_handler_transaction();
}

/* ---- T1: the claim ---- */

/* Copy the job into the memory of the jobs: Claim::give. */
static void
keep_job_of(void *result, const QueueRef &ref, const QueueOptions &options, const JobRow &row,
			const Ready &ready)
{
	auto *jobs = static_cast<HandledJobs *>(result);
	MemoryContext caller = MemoryContextSwitchTo(jobs->memory);
	HandledJob *job = &jobs->jobs[jobs->n++];
	*job = {.ref = ref,
			.lease = ready.lease,
			.serial = ready.serial,
			.job_id = row.job_id(),
			.token = ready.token};
	for (int i = 0; i < kClaimedColumns; i++)
	{
		Datum value = claimed_value(static_cast<ClaimedColumn>(i), {ref, options, row, ready},
									&job->nulls[i]);
		uint32 type = claimed_columns[i].type;
		bool copies = !job->nulls[i] && (type == kText || type == kJsonb);
		job->values[i] = copies ? datumCopy(value, false, -1) : value;
	}
	MemoryContextSwitchTo(caller);
}

static void
forget_jobs(void *result)
{
	static_cast<HandledJobs *>(result)->n = 0;
}

/* Keep the jobs that were handed out, in the order of their ids. */
static void
keep_handed_out(void *result, const Ready *ready, const HandedOut &)
{
	auto *jobs = static_cast<HandledJobs *>(result);
	int kept = 0;
	for (int i = 0; i < jobs->n; i++)
		if (ready[i].handed_out)
		{
			jobs->jobs[kept] = jobs->jobs[i];
			jobs->jobs[kept++].values[static_cast<int>(ClaimedColumn::kLeaseExpiresAt)] =
				TimestampTzGetDatum(ready[i].lease_expires_at());
		}
	jobs->n = kept;
	std::sort(jobs->jobs, jobs->jobs + kept,
			  [](const HandledJob &a, const HandledJob &b) { return a.job_id < b.job_id; });
}

/*
 * Return the length of a lease: the queue's lease_time, but longer than a call can take. So a call
 * that ends by its timeout still has its lease.
 */
static int64
lease_time_for(const QueueRef &ref, const HandlerRow &handler)
{
	static constexpr int64 kSpare = 30 * USECS_PER_SEC;
	int64 time = 0;
	(void) look_at_queue(ref, [&](const Queue &queue) { time = queue.options.lease_time; });
	return Max(time, handler.timeout + kSpare);
}

void
claim_handled(const HandlerRow &handler, int most, HandledJobs *jobs)
{
	/*
	 * All jobs of a claim are in memory at the same time, and an array must be less than 1 GB
	 * (protocol: batch-is-bounded).
	 */
	static constexpr Size kMostBytes = 16 * 1024 * 1024;
	QueueRef ref;
	QueueName queue;
	char *name = queue.text;
	begin_own_transaction();
	jobs->n = 0;
	/* Find the queue by its id: queues may have been renamed since the handlers were read. */
	if (!attach_queue_by_id(tables(), handler.queue_id, &ref))
		return commit_own_transaction();
	(void) read_name(ref.queue, &queue);
	require_right(Permission::kClaim, ref.queue_id, name);
	jobs->jobs =
		static_cast<HandledJob *>(MemoryContextAllocHuge(jobs->memory, most * sizeof(HandledJob)));
	jobs->lease_time = lease_time_for(ref, handler);
	jobs->claimed_at = jobs->extended_at = monotonic_now();
	ClaimOptions options{.max_jobs = most,
						 .wait = 0,
						 .lease_time = jobs->lease_time,
						 .worker = "handler",
						 .session_bound = true,
						 .ends_them_itself = true,
						 .most_bytes = kMostBytes};
	claim_for({keep_job_of, forget_jobs, keep_handed_out, jobs, jobs->memory}, options, &ref, &name,
			  1);
	if (jobs->n == 0)
		(void) refill_timer(ref, true);
	commit_own_transaction();
}

/* ---- T2: the call ---- */

/* Return the job as a value of the type pgq_ext.claimed_job. */
static Datum
composite_of(TupleDesc desc, const HandledJob &job)
{
	auto *values = static_cast<Datum *>(palloc0(desc->natts * sizeof(Datum)));
	auto *nulls = static_cast<bool *>(palloc(desc->natts * sizeof(bool)));
	for (int i = 0; i < desc->natts; i++)
	{
		/* A later version of the SQL objects may have more attributes. */
		nulls[i] = i >= kClaimedColumns || job.nulls[i];
		values[i] = nulls[i] ? Datum{0} : job.values[i];
	}
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

/*
 * Return the row type of the function's argument. The checks have compared this type with the one
 * of the extension. Look the type up for each call, since ALTER EXTENSION UPDATE adds attributes.
 */
static TupleDesc
claimed_job_type(const HandlerRow &handler)
{
	Oid *arguments;
	int n;
	(void) get_func_signature(handler.function, &arguments, &n);
	Oid type = n == 1 ? arguments[0] : InvalidOid;
	TupleDesc desc =
		lookup_rowtype_tupdesc_copy(handler.takes_array ? get_element_type(type) : type, -1);
	check_row_type(desc, "claimed_job", claimed_columns, kClaimedColumns);
	return desc;
}

static Datum
array_of(TupleDesc desc, const HandledJob *first, int n)
{
	auto *elements = static_cast<Datum *>(palloc(n * sizeof(Datum)));
	for (int i = 0; i < n; i++)
		elements[i] = composite_of(desc, first[i]);
	return PointerGetDatum(
		construct_array(elements, n, desc->tdtypeid, -1, false, TYPALIGN_DOUBLE));
}

/* Call the function. Returns its result; *is_null: no result is stored. */
static Datum
call_function(const HandlerRow &handler, Datum argument, bool *is_null)
{
	FmgrInfo function;
	LOCAL_FCINFO(fcinfo, 1);
	fmgr_info(handler.function, &function);
	InitFunctionCallInfoData(*fcinfo, &function, 1, InvalidOid, nullptr, nullptr);
	fcinfo->args[0].value = argument;
	fcinfo->args[0].isnull = false;
	InvokeFunctionExecuteHook(handler.function);
	PgStat_FunctionCallUsage usage;
	pgstat_init_function_usage(fcinfo, &usage);
	Datum result = FunctionCallInvoke(fcinfo);
	pgstat_end_function_usage(&usage, true);
	*is_null = fcinfo->isnull || get_func_rettype(handler.function) != JSONBOID;
	return result;
}

/*
 * Run the function once for all jobs, or once for each job. The function may leave another user or
 * security context behind, by SET ROLE. The acks need the rights of the worker's role.
 */
static void
run_function(const HandlerRow &handler, const HandledJob *first, int n, Datum *results,
			 bool *no_result)
{
	Oid user;
	int context;
	GetUserIdAndSecContext(&user, &context);
	TupleDesc desc = claimed_job_type(handler);
	if (handler.takes_array)
		(void) call_function(handler, array_of(desc, first, n), &no_result[0]);
	for (int i = 0; i < n; i++)
	{
		no_result[i] = true;
		if (!handler.takes_array)
			results[i] = call_function(handler, composite_of(desc, first[i]), &no_result[i]);
		CHECK_FOR_INTERRUPTS();
	}
	SetUserIdAndSecContext(user, context);
}

/*
 * Return whether this transaction has already ended the lease, has deleted the row of the job, or
 * drops the queue: the call has answered itself.
 */
static bool
has_answered(const HandledJob &job)
{
	bool answered = is_me(dropper_of(job.ref)) || deletes_row_of(job.lease, job.serial);
	(void) look_at_lease(tables().database, job.job_id, [&](const Lease &lease) {
		answered = answered || (token_of(&lease) == job.token && lease.ending && is_me(lease.user));
	});
	return answered;
}

/* Acknowledge the jobs that the call has not ended itself. */
static void
ack_handled(const HandledJob *first, int n, const Datum *results, const bool *no_result,
			bool *stale)
{
	/*
	 * First take all jobs in hand, in the order of their ids, as other calls do; then lock the
	 * segments and end the rows.
	 */
	SegmentSet segments(RowExclusiveLock);
	Records records;
	auto *acks = static_cast<Ack *>(palloc(n * sizeof(Ack)));
	auto *answered = static_cast<bool *>(palloc(n * sizeof(bool)));
	uint32 numbers = 0;
	for (int i = 0; i < n; i++)
	{
		acks[i] = {.job_id = first[i].job_id, .token = first[i].token};
		answered[i] = has_answered(first[i]);
		if (answered[i])
			continue;
		take_in_hand(&acks[i]);
		if (acks[i].in_hand)
			numbers |= segment_bit(acks[i].ending.place);
		else
			*stale = true;
		if (*stale)
			ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
							errmsg("the lease of job %lld is not current",
								   static_cast<long long>(first[i].job_id))));
	}
	segments.open_in_order(numbers);
	for (int i = 0; i < n; i++)
		if (!answered[i] &&
			!ack_job(segments, records, acks[i], no_result[i] ? nullptr : &results[i]))
		{
			*stale = true;
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("job %lld does not exist", static_cast<long long>(first[i].job_id))));
		}
	records.write();
	segments.close();
}

void
call_handler(const HandlerRow &handler, HandledJob *first, int n, bool *stale)
{
	*stale = false;
	begin_handler_transaction(false);
	auto *results = static_cast<Datum *>(palloc(n * sizeof(Datum)));
	auto *no_result = static_cast<bool *>(palloc(n * sizeof(bool)));
	stop_point("handler-call");
	run_function(handler, first, n, results, no_result);
	/* Take a new snapshot, so that the acks see the changes that the call has made. */
	PopActiveSnapshot();
	PushActiveSnapshot(GetTransactionSnapshot());
	stop_point("handler-ack");
	ack_handled(first, n, results, no_result, stale);
	commit_handler_transaction();
}

/* ---- T3, and other ends ---- */

void
fail_handled(const HandledJob &job, const char *error)
{
	begin_own_transaction();
	Failure failure{};
	failure.fence = job.token;
	failure.retry = true;
	failure.has_error = true;
	failure.error = clipped_error(CStringGetTextDatum(error));
	stop_point("handler-fail");
	(void) fail_job(job.job_id, failure, Intent::kEndUncancelled);
	commit_own_transaction();
}

void
release_handled(const HandledJob *first, int n, int64 delay)
{
	begin_own_transaction();
	Interval interval{};
	interval.time = delay;
	/* The role may have lost its right to answer for the queue. */
	with_rights_of(tables().owner, [&] {
		for (int i = 0; i < n; i++)
			if (!first[i].ended)
				(void) release_job(first[i].job_id, first[i].token, IntervalPGetDatum(&interval),
								   Intent::kEndUncancelled);
	});
	commit_own_transaction();
}

void
extend_handled(const HandledJob *first, int n, int64 lease_time)
{
	begin_own_transaction();
	for (int i = 0; i < n; i++)
		if (!first[i].ended)
			(void) extend_lease(first[i].job_id, first[i].token, lease_time);
	commit_own_transaction();
}

/* ---- after a call ---- */

namespace {

/* As which roles the worker runs outside of calls. */
struct OwnRoles
{
	Oid session;
	Oid current;
	const config_generic *session_authorization;
	const config_generic *role;
};

} // namespace
static constinit OwnRoles own_roles = {};

void
note_own_roles()
{
	int n;
	config_generic **settings = all_settings(&n);
	own_roles.session = GetSessionUserId();
	own_roles.current = GetOuterUserId();
	for (int i = 0; i < n; i++)
		if (strcmp(settings[i]->name, "session_authorization") == 0)
			own_roles.session_authorization = settings[i];
		else if (strcmp(settings[i]->name, "role") == 0)
			own_roles.role = settings[i];
}

/* Return whether the call may have changed the role of the session for good. */
static bool
may_have_other_roles()
{
	auto was_set = [](const config_generic *setting) {
		return setting == nullptr || setting->source != setting->reset_source;
	};
	return GetSessionUserId() != own_roles.session || GetOuterUserId() != own_roles.current ||
		   was_set(own_roles.session_authorization) || was_set(own_roles.role);
}

void
clean_session()
{
	begin_handler_transaction(true);
	PopActiveSnapshot();
	PortalHashTableDeleteAll();
	if (may_have_other_roles())
	{
		SetPGVariable("session_authorization", NIL, false);
		SetPGVariable("role", NIL, false);
	}
	ResetAllOptions();
	DropAllPreparedStatements();
	Async_UnlistenAll();
	LockReleaseAll(USER_LOCKMETHOD, true);
	ResetTempTableNamespace();
	ResetSequenceCaches();
	commit_locally_if_written();
	CommitTransactionCommand();
	end_session();
}

} // namespace pgq
