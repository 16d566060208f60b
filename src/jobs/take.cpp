/*
 * Taking jobs from one queue: pop, verify, settle, hand out.
 */
#include "jobs/claim.h"
#include "engine/share.h"
#include "engine/waiter.h"
#include "pg/scope.h"
#include "pg/stop_point.h"
#include "load/refill.h"
#include "ring/move.h"
#include "rows/look_up.h"
#include "catalog/token_mark.h"
#include "txn/effects.h"

namespace pgq {

/* Hints popped under one hold of the lock, and verified together. */
static constexpr int kChunk = 64;

/* ---- popping ---- */

struct Popped
{
	Lease *lease;
	uint64 serial;
	int64 token;
	Hint hint;
	Verdict verdict;
	JobRow row;

	/* The row is what the hint said: the job can be handed out. */
	bool fits(const QueueRef &ref) const
	{
		return verdict == Verdict::kLive && row.queue_id() == ref.queue_id &&
			   row.key() == hint.key && row.delayed() == hint.delayed;
	}
};

/*
 * Without a scheduler that can do it nobody counts lost leases; after 5 s their jobs go out
 * uncounted, or a stopped scheduler would stop the queue. worker/README.md, "Lost leases".
 */
static void
take_over_from_scheduler(Queue *queue, int64 monotonic)
{
	if (is_served(queue, monotonic))
		return;
	expire_due(queue, monotonic);
	static constexpr int64 kPatience = 5 * USECS_PER_SEC;
	for (int i = 0; i < kHoldMax; i++)
	{
		Lease *lease = first_lost(queue);
		if (lease == nullptr || monotonic - lease->deadline < kPatience)
			break;
		queue->counters.uncounted++;
		give_back(lease);
	}
}

enum class PopResult : uint8
{
	kPopped, /* or tried to: n may be 0 when all hints were of leased jobs */
	kRefill,
	kWaitForRefill,
	kTokenMark, /* there are jobs, but tokens would go beyond the durable mark */
	kShort,
};

/*
 * Pop up to most hints and take their leases. refilled: we have just refilled the
 * window; what has become due since can wait until we have taken from it, or a
 * flood of timers could keep us reading for ever. first: only then are parked jobs
 * tried again, or many of them could do the same. If the queue is empty: *mover may have
 * jobs of it in hand.
 */
static PopResult
pop_chunk(const QueueRef &ref, int most, bool first, bool refilled, Popped *popped, int *n,
		  QueueOptions *options, Shortage *shortage, VirtualTransactionId *mover)
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
		if (refilled)
			schedule.notice_step_back(wall_now());
		else
			schedule.fire(wall_now());
		if (first)
			unpark_due(queue, monotonic);
		take_over_from_scheduler(queue, monotonic);

		/* Many jobs of the database are locked by somebody: a queue with none of them goes on, one by one. */
		if (too_many_aside(queue->database))
		{
			if (queue->parked_count > 0)
			{
				*shortage = Shortage::kLocked;
				return PopResult::kShort;
			}
			most = 1;
		}
		if (schedule.poppable() && !token_mark_is_ahead(queue->database, kTokenLead))
			return PopResult::kTokenMark;
		int looked_at = 0;
		while (*n < most && looked_at++ < kHoldMax && schedule.poppable())
		{
			Hint hint = schedule.pop();
			switch (take_lease(queue, hint, &popped[*n].lease))
			{
				case TakeResult::kTaken:
					popped[*n].hint = hint;
					popped[*n].serial = serial_of(popped[*n].lease);
					popped[*n].token = token_of(popped[*n].lease);
					add_claim_effect(ref, popped[*n].lease);
					(*n)++;
					break;
				case TakeResult::kHeld:
					/* One hint too many: whoever ends that lease files the job again. */
					note_missed(queue, popped[*n].lease, hint);
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
		*mover = queue->mover;
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
	forget_lease_effects(n);
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
				ready += end_lease(p.lease);
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

/* Under the queue's lock. A slot that was freed and attached again has other leases. */
static bool
is_still(const Ready &ready)
{
	return serial_of(ready.lease) == ready.serial;
}

void
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
				if (current && is_still(claim.ready[i]))
					hand_out(claim.ready[i].lease, claim.ready[i].hand_out,
							 claim.ready[i].monotonic, claim.ready[i].now);
		});
	}
}

/* ---- one queue ---- */

/*
 * Is an error while a job is returned its row's own fault: too large, damaged? Not if
 * somebody has stopped us, or the server lacks something just now, memory included: then
 * the row is set aside for a moment, and the next one may fare better.
 */
static bool
is_fault_of_row(int error)
{
	switch (ERRCODE_TO_CATEGORY(error))
	{
		case MAKE_SQLSTATE('4', '0', '0', '0', '0'): /* deadlock, serialization */
		case MAKE_SQLSTATE('5', '3', '0', '0', '0'): /* insufficient resources */
		case MAKE_SQLSTATE('5', '5', '0', '0', '0'): /* a lock was not to be had */
		case MAKE_SQLSTATE('5', '7', '0', '0', '0'): /* cancel, shutdown */
		case MAKE_SQLSTATE('5', '8', '0', '0', '0'): /* I/O */
			return false;
		default:
			return true;
	}
}

/* A row that no claim can return must not stop the queue: it costs the job an attempt. */
static void
give(Claim *claim, const QueueRef &ref, const QueueOptions &options, const JobRow &row,
	 const Ready &ready)
{
	PG_TRY();
	{
		claim->give(claim->result, ref, options, row, ready);
	}
	PG_CATCH();
	{
		if (is_fault_of_row(geterrcode()))
			note_unreturnable();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static uint32
segments_of(const Popped *popped, int n)
{
	uint32 numbers = 0;
	for (int i = 0; i < n; i++)
		numbers |= segment_bit(popped[i].hint.place);
	return numbers;
}

/*
 * Look at the rows. Returns how many of the jobs cannot be handed out. What a row took
 * of the scratch memory is freed as soon as the caller has its copy; after some megabytes
 * the segments are unlocked for a moment, as between chunks.
 */
static int
verify_chunk(const QueueRef &ref, const QueueOptions &options, Claim *claim, Popped *popped, int n,
			 MemoryContext scratch)
{
	static constexpr Size kManyBytes = 16 * 1024 * 1024;
	SegmentSet segments(AccessShareLock);
	int64 lease_time =
		claim->options->lease_time > 0 ? claim->options->lease_time : options.lease_time;
	if (options.max_runtime > 0)
		lease_time = Min(lease_time, options.max_runtime);
	int64 monotonic = monotonic_now();
	TimestampTz now = wall_now();
	Size bytes = 0;
	int unfit = 0;
	segments.open_in_order(segments_of(popped, n));
	for (int i = 0; i < n; i++)
	{
		Popped &p = popped[i];
		if (bytes > kManyBytes)
		{
			segments.close();
			CHECK_FOR_INTERRUPTS();
			segments.open_in_order(segments_of(&popped[i], n - i));
			bytes = 0;
		}
		note_verifying(p.lease);
		p.verdict = verify_job(segments, p.hint.place, p.hint.key.job_id, &p.row);
		if (!p.fits(ref))
		{
			note_verifying(nullptr);
			unfit++;
			continue;
		}
		Ready &ready = claim->ready[claim->n++];
		HandOut hand_out = {p.row.next_attempt(), lease_time, claim->options->worker, p.row.place};
		ready = {ref, p.lease, p.serial, p.token, hand_out, monotonic, now};
		give(claim, ref, options, p.row, ready);
		note_verifying(nullptr);
		/* From here on only those of its values are used that are not in memory of their own. */
		bytes += MemoryContextMemAllocated(scratch, false);
		MemoryContextReset(scratch);
	}
	/* With the segment's lock came the news: a waiting claim may have slept through a CREATE SUBSCRIPTION. */
	refuse_if_subscribed();
	segments.close();
	return unfit;
}

/* How long a claim has found others at a refill, and no job. */
struct Patience
{
	int64 since; /* monotonic; 0: it has not had to wait */
	int idle;	 /* how often there was nobody to wait for */
};

/*
 * Wait until whoever refills has finished or given up, in the lock manager, for as long as
 * that takes; the caller looks again. What has an end is the time beside that: if there is
 * nobody to wait for, and there are no jobs all the same.
 */
static void
wait_for_refill(const QueueRef &ref, Patience *patience)
{
	static constexpr int64 kLongest = 10 * USECS_PER_SEC;
	static constexpr long kNap = 1000;
	int64 before = monotonic_now();
	patience->since = patience->since == 0 ? before : patience->since;
	if (before - patience->since > kLongest)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("queue \"%s\" is being loaded by another process, which makes no progress",
						ref.queue->name)));
	if (wait_for_refills(ref))
	{
		patience->since += monotonic_now() - before;
		return;
	}
	/* It may just have ended. */
	if (patience->idle++ > 0)
		pg_usleep(kNap);
}

/* Hand out what this queue has, up to what is still wanted. */
Shortage
claim_from(const QueueRef &ref, Claim *claim)
{
	refuse_if_subscribed();
	Shortage shortage = Shortage::kNone;
	int chunk = Min(kChunk, claim->options->max_jobs);
	auto *popped = static_cast<Popped *>(palloc(chunk * sizeof(Popped)));
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_claim", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	if (any_prepared())
		resolve_prepared();
	Patience patience{};
	bool first = true;
	bool refilled = false;
	bool looked_again = false;
	while (shortage == Shortage::kNone && claim->n < claim->options->max_jobs)
	{
		int n;
		QueueOptions options;
		VirtualTransactionId mover;
		int most = Min(chunk, claim->options->max_jobs - claim->n);
		reserve_lease_effects(most);
		PopResult result =
			pop_chunk(ref, most, first, refilled, popped, &n, &options, &shortage, &mover);
		if (n > 0)
		{
			stop_point("claim-verify");
			if (verify_chunk(ref, options, claim, popped, n, scratch) > 0)
			{
				stop_point("claim-settle");
				settle_unfit(ref, popped, n);
			}
		}
		first = refilled = false;
		if (result == PopResult::kTokenMark)
			advance_token_mark(kTokenLead, true, synchronous_commit);
		if (result == PopResult::kRefill)
		{
			/* The timer first: as long as its cursor is behind the clock, every tick asks for a new window. */
			refill_timer(ref, true);
			RefillResult done = refill_window(ref, true);
			refilled = done == RefillResult::kDone;
			if (done == RefillResult::kNotReady)
				result = PopResult::kWaitForRefill;
		}
		if (result == PopResult::kWaitForRefill)
			wait_for_refill(ref, &patience);
		else
			patience = {};
		if (shortage == Shortage::kEmpty && claim->n == 0 && !looked_again &&
			VirtualTransactionIdIsValid(mover))
		{
			/* A job that it had in hand when we found nothing is there when it has ended. */
			wait_for_mover(ref, mover);
			looked_again = true;
			shortage = Shortage::kNone;
		}
		MemoryContextReset(scratch);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
	pfree(popped);
	return shortage;
}

} // namespace pgq
