/*
 * pgq_enqueue and pgq_enqueue_many.
 */
#include "api/args.h"
#include "pg/scope.h"
#include "rows/job.h"
#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "txn/effects.h"

namespace pgq {

/* One job to enqueue, as the caller described it. */
struct Request
{
	bool has_payload;
	Datum payload;
	int32 priority;
	bool has_delay;
	Datum delay;
	bool has_run_at;
	TimestampTz run_at;
	bool has_headers;
	Datum headers;
	bool has_max_attempts;
	int32 max_attempts;
};

/*
 * The queue for writing: locked to the end of the transaction, so that pgq_drop_queue can
 * wait for us, or we for that. The lock of the segment brings the news.
 */
static QueueRef
queue_for_enqueue(const char *name)
{
	for (;;)
	{
		QueueRef ref = resolve_queue(name);
		(void) lock_queue(ref.queue_id, QueueLock::kWriters, RowExclusiveLock, true);
		LockRelationOid(current_segment().heap, RowExclusiveLock);
		refuse_if_subscribed();
		if (is_alive(ref))
			return ref;
		CHECK_FOR_INTERRUPTS();
	}
}

static NewJob
job_of(const QueueRef &ref, const Request &request, TimestampTz now)
{
	if (request.has_delay && request.has_run_at)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("delay and run_at exclude each other"), errhint("Pass one of them.")));
	NewJob job{};
	job.queue_id = ref.queue_id;
	job.payload = request.payload;
	job.priority = request.priority;
	job.enqueued_at = now;
	job.run_at = now;
	if (request.has_delay)
		job.run_at = moment_after(now, request.delay, "delay");
	if (request.has_run_at)
		job.run_at = finite_moment(request.run_at, "run_at");
	job.has_headers = request.has_headers;
	job.headers = request.headers;
	job.has_max_attempts = request.has_max_attempts;
	if (request.has_max_attempts)
		job.max_attempts = in_range(request.max_attempts, 1, INT32_MAX, "max_attempts");
	return job;
}

/* *ids: one a job. */
static void
enqueue(const QueueRef &ref, const NewJob *jobs, int n, int64 *ids)
{
	auto *hints = static_cast<Hint *>(palloc(n * sizeof(Hint)));
	reserve_hints(ref, tables().queue, n);
	insert_jobs(jobs, n, hints);
	for (int i = 0; i < n; i++)
	{
		add_hint(ref, hints[i], true);
		ids[i] = hints[i].key.job_id;
	}
	pfree(hints);
}

/* ---- the JSON form ---- */

static const char *const kJobKeys = "payload, priority, delay, run_at, headers, max_attempts";

[[noreturn]] static void
bad_job(int element, const char *what)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("element %d of jobs %s", element, what),
		 errhint(
			 "Each element is an object with the keys payload (required), priority, delay, run_at, "
			 "headers and max_attempts.")));
}

static Datum
jsonb_of(JsonbValue *value)
{
	return PointerGetDatum(JsonbValueToJsonb(value));
}

static char *
string_of(const JsonbValue &value, int element, const char *key)
{
	if (value.type != jbvString)
		bad_job(element, psprintf("has a %s that is not a string", key));
	return pnstrdup(value.val.string.val, value.val.string.len);
}

/* numeric_int4 rounds. */
static bool
numeric_int4_differs(Numeric exact, int32 number)
{
	return !DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(exact),
											 NumericGetDatum(int64_to_numeric(number))));
}

static int32
integer_of(const JsonbValue &value, int element, const char *key)
{
	if (value.type != jbvNumeric)
		bad_job(element, psprintf("has a %s that is not a number", key));
	bool overflow = false;
	int32 number = numeric_int4_opt_error(value.val.numeric, &overflow);
	if (overflow || numeric_int4_differs(value.val.numeric, number))
		bad_job(element, psprintf("has a %s that is not an integer", key));
	return number;
}

static Datum
parsed(PGFunction input, const char *text)
{
	return DirectFunctionCall3(input, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

/* One key of one element. JSON null means the default, as NULL does. */
static void
read_key(Request *request, const char *key, JsonbValue *value, int element)
{
	static const char *const later[] = {"group_key",  "unique_key",	 "unique_until",
										"unique_for", "on_conflict", "expires_in"};
	if (value->type == jbvNull && strcmp(key, "payload") != 0)
		return;
	if (strcmp(key, "payload") == 0)
	{
		request->has_payload = true;
		request->payload = jsonb_of(value);
	}
	else if (strcmp(key, "priority") == 0)
		request->priority = integer_of(*value, element, key);
	else if (strcmp(key, "delay") == 0)
	{
		request->has_delay = true;
		request->delay = parsed(interval_in, string_of(*value, element, key));
	}
	else if (strcmp(key, "run_at") == 0)
	{
		request->has_run_at = true;
		request->run_at =
			DatumGetTimestampTz(parsed(timestamptz_in, string_of(*value, element, key)));
	}
	else if (strcmp(key, "headers") == 0)
	{
		request->has_headers = true;
		request->headers = jsonb_of(value);
	}
	else if (strcmp(key, "max_attempts") == 0)
	{
		request->has_max_attempts = true;
		request->max_attempts = integer_of(*value, element, key);
	}
	else
	{
		for (const char *name : later)
			not_yet(strcmp(key, name) == 0, name);
		bad_job(element, psprintf("has the unknown key \"%s\"", key));
	}
}

/* Errors out of the middle of the array name the element. */
static void
say_element(void *index)
{
	errcontext("element %u of jobs", *static_cast<uint32 *>(index) + 1);
}

static Request
read_request(JsonbContainer *object, int element)
{
	Request request{};
	JsonbIterator *it = JsonbIteratorInit(object);
	JsonbValue key;
	JsonbValue value;
	JsonbIteratorToken token = JsonbIteratorNext(&it, &value, true);
	while ((token = JsonbIteratorNext(&it, &key, true)) == WJB_KEY)
	{
		JsonbIteratorNext(&it, &value, true);
		read_key(&request, pnstrdup(key.val.string.val, key.val.string.len), &value, element);
	}
	if (!request.has_payload)
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("element %d of jobs has no payload", element),
						errhint("The keys of an element are: %s.", kJobKeys)));
	return request;
}

static Request
read_element(JsonbContainer *jobs, uint32 i)
{
	JsonbValue *element = getIthJsonbValueFromContainer(jobs, i);
	if (element->type != jbvBinary || !JsonContainerIsObject(element->val.binary.data))
		bad_job(static_cast<int>(i) + 1, "is not an object");
	return read_request(element->val.binary.data, static_cast<int>(i) + 1);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_enqueue);
PG_FUNCTION_INFO_V1(pgq_enqueue_many);

PGDLLEXPORT Datum
pgq_enqueue(PG_FUNCTION_ARGS)
{
	enum
	{
		kQueue,
		kPayload,
		kPriority,
		kDelay,
		kRunAt,
		kGroupKey,
		kUniqueKey,
		kUniqueUntil,
		kUniqueFor,
		kOnConflict,
		kHeaders,
		kMaxAttempts,
		kExpiresIn,
	};
	start_write("pgq_enqueue()");
	char *name = queue_name(required(fcinfo, kQueue, "queue"));
	Request request{};
	request.has_payload = true;
	request.payload = required(fcinfo, kPayload, "payload");
	if (given(fcinfo, kPriority))
		request.priority = PG_GETARG_INT32(kPriority);
	if ((request.has_delay = given(fcinfo, kDelay)))
		request.delay = PG_GETARG_DATUM(kDelay);
	if ((request.has_run_at = given(fcinfo, kRunAt)))
		request.run_at = PG_GETARG_TIMESTAMPTZ(kRunAt);
	if ((request.has_headers = given(fcinfo, kHeaders)))
		request.headers = PG_GETARG_DATUM(kHeaders);
	if ((request.has_max_attempts = given(fcinfo, kMaxAttempts)))
		request.max_attempts = PG_GETARG_INT32(kMaxAttempts);
	not_yet(given(fcinfo, kGroupKey), "group_key");
	not_yet(given(fcinfo, kUniqueKey), "unique_key");
	not_yet(given(fcinfo, kUniqueUntil) &&
				strcmp(text_to_cstring(PG_GETARG_TEXT_PP(kUniqueUntil)), "finished") != 0,
			"unique_until");
	not_yet(given(fcinfo, kUniqueFor), "unique_for");
	not_yet(given(fcinfo, kOnConflict) &&
				strcmp(text_to_cstring(PG_GETARG_TEXT_PP(kOnConflict)), "keep") != 0,
			"on_conflict");
	not_yet(given(fcinfo, kExpiresIn), "expires_in");

	QueueRef ref = queue_for_enqueue(name);
	NewJob job = job_of(ref, request, wall_now());
	int64 id;
	enqueue(ref, &job, 1, &id);
	PG_RETURN_INT64(id);
}

PGDLLEXPORT Datum
pgq_enqueue_many(PG_FUNCTION_ARGS)
{
	start_write("pgq_enqueue_many()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	Jsonb *jobs = DatumGetJsonbP(required(fcinfo, 1, "jobs"));
	if (!JB_ROOT_IS_ARRAY(jobs) || JB_ROOT_IS_SCALAR(jobs))
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("jobs must be a JSON array"),
			 errhint("For example: '[{\"payload\": {\"n\": 1}}, {\"payload\": {\"n\": 2}}]'.")));
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);

	QueueRef ref = queue_for_enqueue(name);
	TimestampTz now = wall_now();
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "pgq_enqueue_many", 0,
												  256 * 1024, ALLOCSET_DEFAULT_MAXSIZE);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	uint32 total = JsonContainerSize(&jobs->root);
	for (uint32 next = 0; next < total; MemoryContextReset(scratch))
	{
		NewJob batch[kInsertBatch];
		int64 ids[kInsertBatch];
		int n = 0;
		CHECK_FOR_INTERRUPTS();
		ErrorContextCallback context = {error_context_stack, say_element, &next};
		error_context_stack = &context;
		for (; next < total && n < kInsertBatch; next++)
			batch[n++] = job_of(ref, read_element(&jobs->root, next), now);
		error_context_stack = context.previous;

		enqueue(ref, batch, n, ids);
		for (int i = 0; i < n; i++)
		{
			Datum id = Int64GetDatum(ids[i]);
			bool is_null = false;
			tuplestore_putvalues(result->setResult, result->setDesc, &id, &is_null);
		}
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
	return (Datum) 0;
}
}
