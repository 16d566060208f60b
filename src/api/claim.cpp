/*
 * pgq_claim and pgq_claim_any.
 *
 * A claim takes leases first and looks at the rows then (I1): pop hints and take
 * their leases under the queue's lock, verify the rows without it, settle what
 * was found under the lock again.  Until the settling, an error or a cancel puts
 * everything back uncounted; after it the jobs are handed out (A9).
 */
#include "api/args.h"
#include "engine/waiter.h"
#include "pg/scope.h"
#include "pg/stop_point.h"
#include "store/job.h"
#include "store/queue_store.h"
#include "store/refill.h"
#include "txn/effects.h"

namespace pgq {

static constexpr int kMaxJobs = 10000;
static constexpr int64 kWaitMax = 60 * USECS_PER_SEC;

/* Hints popped under one hold of the lock, and verified together. */
static constexpr int kChunk = 64;

struct ClaimOptions
{
	int max_jobs;
	int64 wait;
	int64 lease_time; /* 0: the queue's */
	const char *worker;
};

/* What stopped a claim before it had all it wanted. */
enum class Shortage : uint8
{
	kNone,
	kEmpty,	  /* no job is ready */
	kLeases,  /* pgq_ext.max_leases */
	kHeld,	  /* the queue is paused, purged or dropped: as good as empty */
	kDropped, /* the queue is gone */
};

/* A job that will be handed out when the call returns. */
struct Ready
{
	QueueRef ref;
	Lease *lease;
	HandOut hand_out;
	int64 monotonic;
	TimestampTz now;
};

struct Claim
{
	const ClaimOptions *options;
	ReturnSetInfo *result;
	Ready *ready; /* room for max_jobs */
	int n;
};

/* ---- popping ---- */

struct Popped
{
	Lease *lease;
	Hint hint;
	Verdict verdict;
	JobRow row;

	/* The row is what the hint said: the job can be handed out. */
	bool fits(const QueueRef &ref) const
	{
		return verdict == Verdict::kLive && row.queue_id() == ref.queue_id && row.key() == hint.key;
	}
};

/*
 * Without a scheduler nobody counts lost leases; after 5 s their jobs go out
 * uncounted, or a stopped scheduler would stop the queue.
 */
static void
take_over_from_scheduler(Queue *queue, int64 monotonic)
{
	if (scheduler_alive(queue->database, monotonic))
		return;
	expire_due(queue, monotonic);
	static constexpr int64 kPatience = 5 * USECS_PER_SEC;
	for (int i = 0; i < kHoldMax; i++)
	{
		Lease *lease = first_lost(queue);
		if (lease == nullptr || monotonic - lease->deadline < kPatience)
			break;
		queue->counters.expired_uncounted++;
		give_back(lease);
	}
}

enum class PopResult : uint8
{
	kPopped, /* or tried to: n may be 0 when all hints were of leased jobs */
	kRefill,
	kWaitForRefill,
	kShort,
};

/*
 * Pop up to most hints and take their leases. refilled: we have just refilled the
 * window; what has become due since can wait until we have taken from it, or a
 * flood of timers could keep us reading for ever.
 */
static PopResult
pop_chunk(const QueueRef &ref, int most, bool refilled, Popped *popped, int *n,
		  QueueOptions *options, Shortage *shortage)
{
	Queue *queue = ref.queue;
	Wakeups wakeups;
	*n = 0;
	PopResult result = with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		Schedule &schedule = queue->schedule;
		if (!is_current(ref))
		{
			*shortage = Shortage::kDropped;
			return PopResult::kShort;
		}
		if (queue->holds > 0 || queue->options.paused)
		{
			*shortage = Shortage::kHeld;
			return PopResult::kShort;
		}
		*options = queue->options;
		int64 monotonic = monotonic_now();
		if (!refilled)
			schedule.fire(GetCurrentTimestamp());
		unpark_due(queue, monotonic);
		take_over_from_scheduler(queue, monotonic);

		int looked_at = 0;
		while (*n < most && looked_at++ < kHoldMax && schedule.poppable())
		{
			Hint hint = schedule.pop();
			switch (take_lease(queue, hint, &popped[*n].lease))
			{
				case TakeResult::kTaken:
					popped[*n].hint = hint;
					add_claim_effect(ref, popped[*n].lease);
					(*n)++;
					break;
				case TakeResult::kHeld:
					/* One hint too many: whoever ends that lease files the job again. */
					break;
				case TakeResult::kFull:
					schedule.file(hint);
					*shortage = Shortage::kLeases;
					return *n > 0 ? PopResult::kPopped : PopResult::kShort;
			}
		}
		if (*n > 0)
			pass_on(queue, &wakeups);
		if (*n > 0 || schedule.poppable())
			return PopResult::kPopped;
		if (schedule.wants_window_refill())
			return PopResult::kRefill;
		if (!schedule.exhausted())
			return PopResult::kWaitForRefill;
		*shortage = Shortage::kEmpty;
		return PopResult::kShort;
	});
	wakeups.deliver();
	return result;
}

/* ---- settling ---- */

/*
 * Somebody has moved the job to another queue by hand. Filed there after its lease
 * here has ended, not before: a claim of that queue drops hints of leased jobs.
 */
static void
file_in_its_queue(const Database *db, const JobRow &row)
{
	QueueRef ref;
	if (!find_attached_queue(db, row.queue_id(), &ref))
		return; /* it will be read from the heap as a whole */
	Queue *queue = ref.queue;
	Wakeups wakeups;
	bool wake = false;
	with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_current(ref))
			return;
		int64 timer_before = queue->schedule.next_timer();
		int ready = queue->schedule.file(row.hint());
		wake = note_filed(queue, ready, timer_before, &wakeups);
	});
	wakeups.deliver();
	if (wake)
		wake_scheduler(db);
}

/*
 * Jobs that cannot be handed out: set aside, filed back under the row's values, or
 * dropped. Nothing in here can fail.
 */
static void
settle_unfit(const QueueRef &ref, Popped *popped, int n)
{
	Queue *queue = ref.queue;
	Wakeups wakeups;
	bool wake = false;
	forget_claim_effects(n);
	with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_current(ref))
			return;
		int64 monotonic = monotonic_now();
		int64 timer_before = queue->schedule.next_timer();
		int ready = 0;
		for (int i = 0; i < n; i++)
		{
			Popped &p = popped[i];
			if (p.fits(ref))
				add_claim_effect(ref, p.lease);
			else if (p.verdict == Verdict::kBusy)
				park_lease(p.lease, monotonic);
			else if (p.verdict == Verdict::kDead || p.row.queue_id() != ref.queue_id)
				end_lease(p.lease);
			else
			{
				p.lease->hint = p.row.hint();
				ready += give_back(p.lease);
			}
		}
		wake = note_filed(queue, ready, timer_before, &wakeups);
	});
	wakeups.deliver();
	if (wake)
		wake_scheduler(queue->database);
	for (int i = 0; i < n; i++)
		if (popped[i].verdict == Verdict::kLive && popped[i].row.queue_id() != ref.queue_id)
			file_in_its_queue(queue->database, popped[i].row);
}

/*
 * The last thing before the call returns: from here on a job that comes back is
 * a lost attempt, until here it was not handed out (A9).
 */
static void
hand_out_all(const Claim &claim)
{
	for (int i = 0; i < claim.n;)
	{
		QueueRef ref = claim.ready[i].ref;
		with_lwlock(ref.queue->lock, LW_EXCLUSIVE, [&] {
			bool current = is_current(ref);
			for (int held = 0;
				 held < kHoldMax && i < claim.n && claim.ready[i].ref.queue == ref.queue;
				 held++, i++)
				if (current)
					hand_out(claim.ready[i].lease, claim.ready[i].hand_out,
							 claim.ready[i].monotonic, claim.ready[i].now);
		});
	}
}

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
return_job(const Claim &claim, const Queue *queue, const QueueOptions &options, const Popped &p,
		   const Ready &ready)
{
	const JobRow &row = p.row;
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
			values[to] = PointerGetDatum(PG_DETOAST_DATUM(row.value(from)));
	};
	copy(kClaimedJobId, kJobId);
	values[kClaimedLease] = Int64GetDatum(pg_atomic_read_u64(&p.lease->token));
	values[kClaimedQueue] = CStringGetTextDatum(queue->name);
	copy_long(kClaimedPayload, kJobPayload);
	copy_long(kClaimedHeaders, kJobHeaders);
	copy_long(kClaimedGroupKey, kJobGroupKey);
	copy(kClaimedPriority, kJobPriority);
	values[kClaimedAttempt] = Int32GetDatum(ready.hand_out.attempt);
	values[kClaimedMaxAttempts] = Int32GetDatum(row.max_attempts(options.max_attempts));
	copy(kClaimedEnqueuedAt, kJobEnqueuedAt);
	copy(kClaimedRunAt, kJobRunAt);
	values[kClaimedLeaseExpiresAt] = TimestampTzGetDatum(ready.now + ready.hand_out.lease_time);
	copy_long(kClaimedLastError, kJobLastError);
	tuplestore_putvalues(claim.result->setResult, claim.result->setDesc, values, nulls);
}

/* ---- one queue ---- */

/* Look at the rows. Returns how many of the jobs cannot be handed out. */
static int
verify_chunk(const QueueRef &ref, const QueueOptions &options, Claim *claim, Popped *popped, int n)
{
	SegmentSet segments(AccessShareLock);
	int64 lease_time =
		claim->options->lease_time > 0 ? claim->options->lease_time : options.lease_time;
	if (options.max_runtime > 0)
		lease_time = Min(lease_time, options.max_runtime);
	int unfit = 0;
	for (int i = 0; i < n; i++)
	{
		Popped &p = popped[i];
		p.verdict = verify_job(segments, p.hint.place, p.hint.key.job_id, &p.row);
		if (!p.fits(ref))
		{
			unfit++;
			continue;
		}
		p.lease->hint.place = p.row.place;
		Ready &ready = claim->ready[claim->n++];
		ready = {ref,
				 p.lease,
				 {p.row.attempts() + 1, lease_time, claim->options->worker},
				 monotonic_now(),
				 GetCurrentTimestamp()};
		return_job(*claim, ref.queue, options, p, ready);
	}
	segments.close();
	return unfit;
}

/*
 * Wait until whoever refills has finished or given up; the caller looks again.
 * The deadlock detector does not see this wait, so it has an end.
 */
static void
wait_for_refill(Queue *queue, int64 since)
{
	static constexpr int64 kPatience = 10 * USECS_PER_SEC;
	if (monotonic_now() - since > kPatience)
		ereport(
			ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("queue \"%s\" is being loaded by another process, which makes no progress",
					queue->name),
			 errhint("It may be waiting for a lock on a table of schema pgq_ext; see pg_locks.")));
	ConditionVariablePrepareToSleep(&queue->refilled);
	if (queue->schedule.window_refill_active() || queue->schedule.timer_refill_active())
		ConditionVariableTimedSleep(&queue->refilled, 100, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
}

/* Hand out what this queue has, up to what is still wanted. */
static Shortage
claim_from(const QueueRef &ref, Claim *claim)
{
	Shortage shortage = Shortage::kNone;
	int chunk = Min(kChunk, claim->options->max_jobs);
	auto *popped = static_cast<Popped *>(palloc(chunk * sizeof(Popped)));
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_claim", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	int64 waiting_since = 0;
	bool refilled = false;
	while (shortage == Shortage::kNone && claim->n < claim->options->max_jobs)
	{
		int n;
		QueueOptions options;
		int most = Min(chunk, claim->options->max_jobs - claim->n);
		reserve_lease_effects(most);
		PopResult result = pop_chunk(ref, most, refilled, popped, &n, &options, &shortage);
		if (n > 0)
		{
			stop_point("claim-verify");
			if (verify_chunk(ref, options, claim, popped, n) > 0)
				settle_unfit(ref, popped, n);
		}
		refilled = false;
		if (result == PopResult::kRefill)
		{
			/* The timer first: as long as its cursor is behind the clock, every tick asks for a new window. */
			refill_timer(ref);
			refilled = refill_window(ref) == RefillResult::kDone;
		}
		if (result != PopResult::kWaitForRefill)
			waiting_since = 0;
		else
		{
			waiting_since = waiting_since == 0 ? monotonic_now() : waiting_since;
			wait_for_refill(ref.queue, waiting_since);
		}
		MemoryContextReset(scratch);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
	pfree(popped);
	return shortage;
}

/* ---- waiting ---- */

static void
check_client()
{
	if (MyProcPort != nullptr && !pq_check_connection())
		ereport(FATAL, (errcode(ERRCODE_CONNECTION_FAILURE), errmsg("connection to client lost")));
}

/* A wait ends, empty, before the statement's time does. */
static TimestampTz
end_of_wait(int64 wait)
{
	TimestampTz end = GetCurrentTimestamp() + wait;
	if (get_timeout_active(STATEMENT_TIMEOUT))
	{
		static constexpr int64 kMargin = 100 * 1000;
		end = Min(end, get_timeout_finish_time(STATEMENT_TIMEOUT) - kMargin);
	}
	return end;
}

/* When this process has to look again by itself: the timers it watches, parked jobs. */
static int64
nap_in_milliseconds(const QueueRef *refs, int n, int64 watch, TimestampTz end, TimestampTz now)
{
	int64 nap = Min(end, watch) - now;
	int64 monotonic = monotonic_now();
	for (int i = 0; i < n; i++)
	{
		Queue *queue = refs[i].queue;
		with_lwlock(queue->lock, LW_SHARED, [&] {
			if (!is_current(refs[i]))
				return;
			if (!dlist_is_empty(&queue->parked) || !scheduler_alive(queue->database, monotonic))
				nap = Min(nap, kParkTime);
		});
	}
	return Max(0, (nap + 999) / 1000);
}

static void
complain(Shortage shortage, const char *name)
{
	if (shortage == Shortage::kDropped)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("queue \"%s\" was dropped", name)));
	if (shortage == Shortage::kLeases)
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("too many jobs are claimed at the same time"),
						errhint("Raise pgq_ext.max_leases (now %d) and restart the server, or "
								"claim fewer jobs at a time.",
								max_leases)));
}

/* Go through the queues in their order. Returns the queue that gave the first job. */
static Queue *
claim_from_all(const QueueRef *refs, char *const *names, int n, Claim *claim)
{
	Queue *served = nullptr;
	Shortage worst = Shortage::kNone;
	int short_queue = 0;
	for (int i = 0; i < n && claim->n < claim->options->max_jobs; i++)
	{
		int before = claim->n;
		Shortage shortage = claim_from(refs[i], claim);
		if (claim->n > before && served == nullptr)
			served = refs[i].queue;
		if (shortage == Shortage::kDropped || shortage == Shortage::kLeases)
		{
			worst = shortage;
			short_queue = i;
		}
	}
	if (claim->n == 0)
		complain(worst, names[short_queue]);
	return served;
}

static void
wait_for_jobs(const QueueRef *refs, char *const *names, int n, Claim *claim)
{
	TimestampTz end = end_of_wait(claim->options->wait);
	Queue *served = nullptr;
	join_lines(refs, n);
	for (;;)
	{
		/* In line before looking, so that a commit meanwhile wakes us. */
		rejoin_lines();
		served = claim_from_all(refs, names, n, claim);
		TimestampTz now = GetCurrentTimestamp();
		if (claim->n > 0 || now >= end)
			break;
		for (int i = 0; i < n; i++)
			refill_timer(refs[i]);
		long nap = nap_in_milliseconds(refs, n, rejoin_lines(), end, now);
		if (nap > 0)
			WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, nap,
					  PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		check_client();
	}
	leave_lines(served);
}

static void
claim_jobs(FunctionCallInfo fcinfo, const ClaimOptions &options, const QueueRef *refs,
		   char *const *names, int n)
{
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	Claim claim;
	claim.options = &options;
	claim.result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	claim.ready = static_cast<Ready *>(palloc(options.max_jobs * sizeof(Ready)));
	claim.n = 0;
	claim_from_all(refs, names, n, &claim);
	if (claim.n == 0 && options.wait > 0)
		wait_for_jobs(refs, names, n, &claim);
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
	claim_jobs(fcinfo, options, &ref, &name, 1);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_claim_any(PG_FUNCTION_ARGS)
{
	start_write("pgq_claim_any()");
	Datum *elements;
	int n = elements_of(required(fcinfo, 0, "queues"), TEXTOID, "queues", &elements);
	if (n == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("queues must name at least one queue")));
	if (n > kClaimQueuesMax)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("queues has too many elements"),
				 errdetail("It has %d; at most %d are possible.", n, kClaimQueuesMax)));
	ClaimOptions options = read_options(fcinfo);
	QueueRef refs[kClaimQueuesMax];
	char *names[kClaimQueuesMax];
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
	claim_jobs(fcinfo, options, refs, names, distinct);
	return (Datum) 0;
}
}
