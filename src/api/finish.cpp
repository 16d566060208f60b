/*
 * What a worker says of a job it holds: pgq_ack, pgq_ack_many, pgq_fail, pgq_extend.
 */
#include "api/args.h"
#include "engine/token.h"
#include "engine/waiter.h"
#include "pg/scope.h"
#include "jobs/attempt.h"
#include "rows/look_up.h"
#include "rows/write.h"
#include "catalog/queue_row.h"
#include "catalog/tables.h"
#include "txn/effects.h"

namespace pgq {

static constexpr int kStaleLease = MAKE_SQLSTATE('P', 'Q', '0', '0', '1');
static constexpr int kManyMax = 10000;

/* A lease this transaction has taken in hand to end it. */
struct Held
{
	QueueRef ref;
	Lease *lease;
	Place place;
	QueueOptions options;
};

/* Under the queue's lock: the entry was found without it, and may be another's by now. */
static bool
is_lease_of(Lease *lease, const Queue *queue, int64 job_id, int64 token)
{
	return token_of(lease) == token && lease->queue == queue && lease->key.job_id == job_id &&
		   lease->state == LeaseState::kClaimed;
}

enum class Grip : uint8
{
	kHeld,
	kStale,
	kElsewhere, /* another transaction is claiming or ending it: wait for that */
};

/*
 * Pin the lease for its end at commit, if the token is current. Only one open
 * transaction can have it in hand; a second one waits for the first, where the
 * deadlock detector sees it, and then finds the lease stale or free again.
 */
static Grip
grip(int64 job_id, int64 token, LeaseEnd how, Held *held, VirtualTransactionId *other)
{
	Lease *lease;
	Queue *queue;
	reserve_lease_effects(1);
	if (!find_lease(tables().database, job_id, &lease, &queue))
		return Grip::kStale;
	return with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_lease_of(lease, queue, job_id, token))
			return Grip::kStale;
		VirtualTransactionId me = my_virtual_xid();
		if (VirtualTransactionIdIsValid(lease->ender))
		{
			*other = lease->ender;
			return VirtualTransactionIdEquals(lease->ender, me) ? Grip::kStale : Grip::kElsewhere;
		}
		/* Whether the claim itself will stand is not known yet. */
		if (VirtualTransactionIdIsValid(lease->claimer) &&
			!VirtualTransactionIdEquals(lease->claimer, me))
		{
			*other = lease->claimer;
			return Grip::kElsewhere;
		}
		held->ref = {queue, pg_atomic_read_u32(&queue->generation), queue->queue_id};
		held->lease = lease;
		held->place = lease->hint.place;
		held->options = queue->options;
		add_end_effect(held->ref, lease, how);
		pin_lease(lease);
		lease->ender = my_virtual_xid();
		return Grip::kHeld;
	});
}

static bool
take_in_hand(int64 job_id, int64 token, LeaseEnd how, Held *held)
{
	for (;;)
	{
		VirtualTransactionId other;
		switch (grip(job_id, token, how, held, &other))
		{
			case Grip::kHeld:
				return true;
			case Grip::kStale:
				return false;
			case Grip::kElsewhere:
				VirtualXactLock(other, true);
				if (any_prepared())
					resolve_prepared();
				break;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * An ack with a lease from before this start of the server. Memory knows nothing
 * of that lease, but if it proves itself by its check bits, nobody has the job now, and no
 * lease that came later has been written to the row as its fence, the work was done and nobody
 * has begun it again: so the ack is honoured (B3, L15). It takes the job's lease first, as
 * anyone who ends a waiting job must, then looks at the row again.
 */
static bool
is_honoured(const JobRow &row, int64 token)
{
	/* Enqueued later: a job of an extension that was created anew, with the ids of the old one. */
	if (time_of_prefix(prefix_of(token)) < DatumGetTimestampTz(row.value(kJobEnqueuedAt)))
		return false;
	/* Another job may have been merged into it meanwhile. */
	if (!row.is_null(kJobUniqueKey))
		return false;
	int64 fence = row.is_null(kJobFence) ? 0 : DatumGetInt64(row.value(kJobFence));
	return -token < fence && fence < token;
}

/* Is that a lease of that job? So many wrong ones, and no late ack of this load is honoured any more (L16). */
static bool
is_proven(const Load &load, int64 job_id, int64 token)
{
	static constexpr uint32 kFailedMax = 8;
	if (load.failed_checks >= kFailedMax)
		return false;
	if (check_of(token) == check_bits(load.key, job_id, prefix_of(token)))
		return true;
	/* Of a job that somebody has, it would not have been honoured anyhow. */
	Lease *lease;
	Queue *queue;
	const Tables &t = tables();
	if (!find_lease(t.database, job_id, &lease, &queue) &&
		note_failed_check(t.database, t.database_generation) == kFailedMax)
		ereport(
			LOG_SERVER_ONLY,
			(errmsg("no late acknowledgement is honoured any more in database \"%s\"",
					get_database_name(MyDatabaseId)),
			 errdetail("%u leases from before the last start were none of their job.", kFailedMax),
			 errhint("Somebody acknowledges jobs with leases of others, or guesses. Jobs that "
					 "were in work at the last start run again.")));
	return false;
}

/*
 * Who has the job? kStale: it was handed out. kElsewhere: wait for that transaction, or, if it
 * is invalid, for a moment, and look again. A claim decides at once, mostly; one that has not for a
 * while may wait for a lock, of ours even, so it is waited for where the deadlock detector sees it.
 */
static Grip
ask_holder(int64 job_id, bool for_a_while, VirtualTransactionId *other)
{
	Lease *lease;
	Queue *queue;
	Wakeups wakeups;
	SetInvalidVirtualTransactionId(*other);
	if (!find_lease(tables().database, job_id, &lease, &queue))
		return Grip::kElsewhere;
	Grip grip = with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		if (lease->queue != queue || lease->key.job_id != job_id || serial_of(lease) == 0)
			return Grip::kElsewhere;
		if (lease->state == LeaseState::kParked)
		{
			/* Nobody's: its row was busy when a claim looked. We shall wait for the row. */
			int64 timer_before = queue->schedule.next_timer();
			bool ready = give_back(lease);
			note_filed(queue, ready, timer_before, &wakeups);
			return Grip::kElsewhere;
		}
		if (lease->state != LeaseState::kClaiming)
			return Grip::kStale;
		*other = for_a_while && !VirtualTransactionIdIsValid(lease->ender) ? lease->claimer
																		   : lease->ender;
		return VirtualTransactionIdEquals(*other, my_virtual_xid()) ? Grip::kStale
																	: Grip::kElsewhere;
	});
	wakeups.deliver();
	return grip;
}

[[noreturn]] static void
complain_full()
{
	ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					errmsg("too many jobs are claimed at the same time"),
					errdetail("The acknowledgement, with a lease from before the last start, needs "
							  "a place among them."),
					errhint("Try again, or raise pgq_ext.max_leases (now %d) and restart the "
							"server.",
							max_leases)));
}

/*
 * False: somebody has the job. Waits for who moves its row, or acks it, and for a claim that
 * has not decided yet whether it hands the job out.
 */
static bool
take_late(const JobRow &row, Held *held)
{
	static constexpr int kNaps = 100;
	for (int naps = 0;; naps++)
	{
		VirtualTransactionId other;
		if (!attach_queue_by_id(row.queue_id(), &held->ref))
			return false;
		switch (take_lease_to_end(held->ref, row.hint(), LeaseEnd::kAcked, &held->lease, &other))
		{
			case TakeResult::kTaken:
				return true;
			case TakeResult::kFull:
				complain_full();
			case TakeResult::kHeld:
				break;
		}
		if (ask_holder(row.job_id(), naps >= kNaps, &other) == Grip::kStale)
			return false;
		if (VirtualTransactionIdIsValid(other))
			VirtualXactLock(other, true);
		else
			pg_usleep(1000);
		if (any_prepared())
			resolve_prepared();
		CHECK_FOR_INTERRUPTS();
	}
}

static void
give_back_late(const Held &held)
{
	Queue *queue = held.ref.queue;
	Wakeups wakeups;
	forget_lease_effects(2);
	with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
		if (!is_current(held.ref))
			return;
		int64 timer_before = queue->schedule.next_timer();
		bool ready = give_back(held.lease);
		note_filed(queue, ready, timer_before, &wakeups);
	});
	wakeups.deliver();
}

static bool
ack_late(SegmentSet &segments, int64 job_id, int64 token)
{
	JobRow row;
	Held held;
	refuse_if_subscribed();
	Load load = read_load(tables().database, tables().database_generation);
	if (token <= 0 || prefix_of(token) >= load.base_prefix ||
		locate_job(segments, Place{}, job_id, true, &row) != WriteResult::kDone ||
		!is_honoured(row, token) || !is_proven(load, job_id, token) || !take_late(row, &held))
		return false;
	if (locate_job(segments, row.place, job_id, true, &row) == WriteResult::kDone &&
		is_honoured(row, token) &&
		delete_job(segments, row.place, job_id, true, nullptr) == WriteResult::kDone)
		return true;
	give_back_late(held);
	return false;
}

/* False: stale, or the row is gone. */
static bool
ack(SegmentSet &segments, int64 job_id, int64 token)
{
	Held held;
	if (!take_in_hand(job_id, token, LeaseEnd::kAcked, &held))
		return ack_late(segments, job_id, token);
	if (delete_job(segments, held.place, job_id, true, nullptr) == WriteResult::kDone)
		return true;
	set_end(held.lease, LeaseEnd::kUncounted);
	return false;
}

/* The new end of the lease, or 0: stale. */
static TimestampTz
extend(int64 job_id, int64 token, int64 wanted, Held *held)
{
	Lease *lease;
	Queue *queue;
	if (!find_lease(tables().database, job_id, &lease, &queue))
		return 0;
	return with_lwlock(queue->lock, LW_EXCLUSIVE, [&]() -> TimestampTz {
		if (!is_lease_of(lease, queue, job_id, token) ||
			VirtualTransactionIdEquals(lease->ender, my_virtual_xid()) ||
			!set_deadline(lease, wanted > 0 ? wanted : queue->options.lease_time, monotonic_now(),
						  wall_now()))
			return 0;
		held->lease = lease;
		held->ref.queue = queue;
		held->place = lease->hint.place;
		return lease->expires_at;
	});
}

/*
 * Somebody may have deleted the job by hand: its worker shall stop, and its lease, which
 * nobody needs any more, ends as soon as time may end it. Looked at after the lease has its new
 * end, since the look may have to wait for a lock. A delete that has not been committed is none.
 */
static bool
has_row(const Held &held, int64 job_id, int64 token)
{
	JobRow row;
	SegmentSet segments(AccessShareLock);
	bool gone = verify_job(segments, held.place, job_id, &row) == Verdict::kDead;
	segments.close();
	if (gone)
		with_lwlock(held.ref.queue->lock, LW_EXCLUSIVE, [&] {
			if (is_lease_of(held.lease, held.ref.queue, job_id, token))
				(void) set_deadline(held.lease, 0, monotonic_now(), wall_now());
		});
	return !gone;
}

/* Where the rows are, mostly: read without the queues' locks, for a guess. */
static uint32
segments_of(const Datum *ids, int n)
{
	uint32 numbers = 0;
	for (int i = 0; i < n; i++)
	{
		Lease *lease;
		Queue *queue;
		if (find_lease(tables().database, DatumGetInt64(ids[i]), &lease, &queue))
			numbers |= segment_bit(lease->hint.place);
	}
	return numbers;
}

[[noreturn]] static void
complain_stale(int64 job_id, int64 token)
{
	ereport(ERROR,
			(errcode(kStaleLease),
			 errmsg("lease %lld of job %lld is not current", static_cast<long long>(token),
					static_cast<long long>(job_id)),
			 errdetail("It expired, was ended already, or is not a lease of that job."),
			 errhint("Roll back: the job is not yours any more, and may be in other hands.")));
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_ack);
PG_FUNCTION_INFO_V1(pgq_ack_many);
PG_FUNCTION_INFO_V1(pgq_fail);
PG_FUNCTION_INFO_V1(pgq_extend);

PGDLLEXPORT Datum
pgq_ack(PG_FUNCTION_ARGS)
{
	start_write("pgq_ack()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	not_yet(given(fcinfo, 2), "result");
	SegmentSet segments(RowExclusiveLock);
	if (!ack(segments, job_id, token))
		complain_stale(job_id, token);
	segments.close();
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_ack_many(PG_FUNCTION_ARGS)
{
	start_write("pgq_ack_many()");
	/* What array_agg() says of no rows: nothing to do. */
	bool nothing = !given(fcinfo, 0) && !given(fcinfo, 1);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (nothing)
		return (Datum) 0;
	Datum *ids;
	Datum *tokens;
	int n = elements_of(required(fcinfo, 0, "job_ids"), INT8OID, "job_ids", &ids);
	int n_tokens = elements_of(required(fcinfo, 1, "leases"), INT8OID, "leases", &tokens);
	if (n != n_tokens)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("job_ids and leases must have the same number of elements"),
						errdetail("They have %d and %d.", n, n_tokens)));
	if (n > kManyMax)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("job_ids has too many elements"),
				 errdetail("It has %d; at most %d are possible.", n, kManyMax)));
	auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	SegmentSet segments(RowExclusiveLock);
	segments.open_in_order(segments_of(ids, n));
	for (int i = 0; i < n; i++)
	{
		bool is_null = false;
		if (ack(segments, DatumGetInt64(ids[i]), DatumGetInt64(tokens[i])))
			tuplestore_putvalues(result->setResult, result->setDesc, &ids[i], &is_null);
		CHECK_FOR_INTERRUPTS();
	}
	segments.close();
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_fail(PG_FUNCTION_ARGS)
{
	enum
	{
		kJob,
		kLease,
		kError,
		kRetryIn,
		kRetryAgain,
	};
	start_write("pgq_fail()");
	int64 job_id = DatumGetInt64(required(fcinfo, kJob, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, kLease, "lease"));
	Failure failure{};
	failure.fence = token;
	failure.retry = !given(fcinfo, kRetryAgain) || PG_GETARG_BOOL(kRetryAgain);
	failure.reason = "failed without retry";
	if ((failure.has_error = given(fcinfo, kError)))
		failure.error = clipped_error(PG_GETARG_DATUM(kError));
	if ((failure.has_retry_in = given(fcinfo, kRetryIn)))
	{
		failure.retry_in = PG_GETARG_DATUM(kRetryIn);
		(void) duration(failure.retry_in, "retry_in");
	}

	Held held;
	const char *answer = "stale";
	if (take_in_hand(job_id, token, LeaseEnd::kFailed, &held))
	{
		SegmentSet segments(RowExclusiveLock);
		switch (
			end_failed_attempt(segments, held.ref, held.options, held.place, job_id, failure, true))
		{
			case AttemptEnd::kRetry:
				answer = "retry";
				break;
			case AttemptEnd::kDead:
				set_dead(held.lease);
				answer = "dead";
				break;
			case AttemptEnd::kGone:
			case AttemptEnd::kBusy:
				set_end(held.lease, LeaseEnd::kUncounted);
				break;
		}
		segments.close();
	}
	PG_RETURN_TEXT_P(cstring_to_text(answer));
}

PGDLLEXPORT Datum
pgq_extend(PG_FUNCTION_ARGS)
{
	start_write("pgq_extend()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 token = DatumGetInt64(required(fcinfo, 1, "lease"));
	int64 wanted = given(fcinfo, 2) ? lease_time(PG_GETARG_DATUM(2), "lease_time") : 0;

	Held held;
	TimestampTz end = extend(job_id, token, wanted, &held);
	if (end == 0 || !has_row(held, job_id, token))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(end);
}
}
