/*
 * pgmq.read, pgmq.read_with_poll and pgmq.pop.
 *
 * A read is a claim, which writes nothing. Three kinds of reads take the way that writes the row of
 * the message instead (mq/change.h): a time that no lease can have, a condition, and messages that a
 * claim has left although they can be read: those that this transaction has sent, and any if all
 * leases are in use.
 */
#include "api/args.h"
#include "api/message_args.h"
#include "api/result_rows.h"
#include "claim/call.h"
#include "engine/hold.h"
#include "engine/queue_options.h"
#include "jobs/finish.h"
#include "mq/change.h"
#include "pg/clock.h"
#include "txn/effects.h"

namespace pgq {

namespace {

struct MessageRead
{
	MessageQueue queue;
	QueueRef ref;
	int64 vt; /* microseconds */
	int qty;
	Datum condition; /* jsonb; 0: none */
	ResultRows *result;
	int n; /* messages read so far */

	bool by_claim() const { return condition == 0 && vt >= kLeaseTimeMin && vt <= kLeaseTimeMax; }
};

} // namespace

static constexpr int kMostAtOnce = 10000;

/* ---- the receiver of a claim ---- */

static void
put_claimed(void *result, const QueueRef &, const QueueOptions &, const JobRow &row,
			const Ready &ready)
{
	Message message = message_of(row);
	show_lease(&message, ready.hand_out.attempt, ready.now, ready.lease_expires_at());
	static_cast<ResultRows *>(result)->put_values(message.values, message.nulls, kMessageColumns);
}

static void
clear_messages(void *result)
{
	static_cast<ResultRows *>(result)->clear();
}

namespace {
/* The result of one claim: the rows before it stay as they are. */
struct ClaimedMessages
{
	ResultRows *rows;
	Message *messages;
	int64 *job_ids;
	MemoryContext memory; /* of the values in `messages` */
	int n;
};

} // namespace

static void
note_claimed(void *result, const QueueRef &, const QueueOptions &, const JobRow &row,
			 const Ready &ready)
{
	auto *claimed = static_cast<ClaimedMessages *>(result);
	Message message = message_of(row);
	/* The claim frees the memory of the row. */
	copy_values(&message, claimed->memory);
	claimed->job_ids[claimed->n] = row.job_id();
	claimed->messages[claimed->n++] = message;
}

static void
forget_claimed(void *result)
{
	static_cast<ClaimedMessages *>(result)->n = 0;
}

/* Acknowledge the messages that were handed out, and return them as they were before the claim. */
static void
end_claimed(void *result, const Ready *ready, const HandedOut &)
{
	auto *claimed = static_cast<ClaimedMessages *>(result);
	SegmentSet segments(RowExclusiveLock);
	Records records;
	for (int i = 0; i < claimed->n; i++)
	{
		if (!ready[i].handed_out)
			continue;
		Ack ack;
		ack.job_id = claimed->job_ids[i];
		ack.token = ready[i].token;
		take_in_hand(&ack);
		if (ack_job(segments, records, ack, nullptr))
			claimed->rows->put_values(claimed->messages[i].values, claimed->messages[i].nulls,
									  kMessageColumns);
	}
	records.write();
	segments.close_unwritten();
}

static void
correct_claimed(void *result, const Ready *ready, const HandedOut &out)
{
	if (out.kept == 0 && out.renewed == 0)
		return;
	static_cast<ResultRows *>(result)->keep([&](int i, Datum *values) {
		values[static_cast<int>(MessageColumn::kLastReadAt)] = TimestampTzGetDatum(ready[i].now);
		values[static_cast<int>(MessageColumn::kVt)] =
			TimestampTzGetDatum(ready[i].lease_expires_at());
		return ready[i].handed_out;
	});
}

/* ---- reading ---- */

/* Return how many of the claimed jobs were handed out. */
static int
claim_messages(const MessageRead &read, const ClaimReceiver &receiver, int64 wait, int most)
{
	char name[kQueueNameMax + 1] = "";
	char *names[] = {name};
	(void) copy_name(read.ref, name);
	ClaimOptions options{.max_jobs = most,
						 .wait = wait,
						 .lease_time = Max(read.vt, kLeaseTimeMin),
						 .worker = application_name != nullptr ? application_name : ""};
	/* If all leases are in use, return no message: read_by_writing() reads without leases. */
	options.stop_if_short = true;
	return claim_for(receiver, options, &read.ref, names, 1);
}

/* Return whether a claim that has just ended may have left messages that can be read. */
static bool
may_have_left(const MessageRead &read)
{
	bool left = has_new_hints(read.ref);
	if (!left)
		(void) change_queue(read.ref, [&](QueueHold &hold) { left = hold.is_claimable(); });
	return left;
}

static void
read_by_writing(MessageRead *read, int most)
{
	auto *messages = static_cast<Message *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (most + 1) * sizeof(Message)));
	int n = take_messages(read->queue, read->condition, most, read->vt, messages);
	for (int i = 0; i < n; i++)
		read->result->put_values(messages[i].values, messages[i].nulls, kMessageColumns);
	read->n += n;
	pfree(messages);
}

/*
 * Read at most `qty` messages: with one claim, of at most kMostAtOnce, and then in the way that writes, at
 * most as many.
 */
static void
read_messages(MessageRead *read, int64 wait)
{
	const ClaimReceiver receiver = {put_claimed, clear_messages, correct_claimed, read->result,
									CurrentMemoryContext};
	if (read->by_claim() && read->qty > 0)
		read->n += claim_messages(*read, receiver, wait, Min(read->qty, kMostAtOnce));
	if (read->n < read->qty && (!read->by_claim() || may_have_left(*read)))
		read_by_writing(read, Min(read->qty - read->n, kMostAtOnce));
}

static MessageRead
start_read(FunctionCallInfo fcinfo, ResultRows *result, int condition)
{
	MessageRead read{};
	read.queue = message_queue(fcinfo, ACL_SELECT | ACL_UPDATE);
	read.ref = jobs_of(read.queue);
	read.vt = given(fcinfo, 1) ? PG_GETARG_INT32(1) * USECS_PER_SEC : 0;
	read.qty = given(fcinfo, 2) ? PG_GETARG_INT32(2) : kMostAtOnce;
	read.result = result;
	if (!given(fcinfo, 1))
		ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("vt must not be null")));
	if (read.qty < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_ROW_COUNT_IN_LIMIT_CLAUSE),
						errmsg("qty must not be negative")));
	if (given(fcinfo, condition))
	{
		Jsonb *wanted = PG_GETARG_JSONB_P(condition);
		if (!JB_ROOT_IS_OBJECT(wanted) || JB_ROOT_COUNT(wanted) > 0)
			read.condition = JsonbPGetDatum(wanted);
	}
	return read;
}

/*
 * Read until there is a message or the time is over. A claim waits for a message. Reads that do not
 * claim look again after each pause, as those of the original do; so does a claim that ends before the
 * pause is over because all leases are in use.
 */
static void
poll(MessageRead *read, int64 time, int64 pause)
{
	int64 end = monotonic_now() + time;
	for (;;)
	{
		read_messages(read, 0);
		int64 now = monotonic_now();
		if (read->n > 0 || now >= end)
			return;
		if (read->by_claim())
			read_messages(read, Min(end - now, kWaitMax));
		if (read->n > 0)
			return;
		int64 again = Min(now + pause, end) - monotonic_now();
		if (again > 0)
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 static_cast<long>(again / 1000 + 1), PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_mq_read);
PG_FUNCTION_INFO_V1(pgq_mq_read_with_poll);
PG_FUNCTION_INFO_V1(pgq_mq_read_by_id);
PG_FUNCTION_INFO_V1(pgq_mq_pop);

PGDLLEXPORT Datum
pgq_mq_read(PG_FUNCTION_ARGS)
{
	start_write("pgmq.read()");
	ResultRows result(fcinfo, "message_record", message_columns);
	MessageRead read = start_read(fcinfo, &result, 3);
	read_messages(&read, 0);
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_mq_read_with_poll(PG_FUNCTION_ARGS)
{
	start_write("pgmq.read_with_poll()");
	ResultRows result(fcinfo, "message_record", message_columns);
	MessageRead read = start_read(fcinfo, &result, 5);
	/* NULL: wait without end, as the original does. */
	int64 time = given(fcinfo, 3) ? PG_GETARG_INT32(3) * USECS_PER_SEC : kThousandYears;
	int64 pause = given(fcinfo, 4) ? PG_GETARG_INT32(4) * INT64CONST(1000) : 0;
	if (time > 0 && read.qty > 0)
		poll(&read, time, Max(pause, INT64CONST(1000)));
	return (Datum) 0;
}

/* Read those of the given messages that can be read now, in the order of the array. */
PGDLLEXPORT Datum
pgq_mq_read_by_id(PG_FUNCTION_ARGS)
{
	start_write("pgmq._read_by_id()");
	ResultRows result(fcinfo, "message_record", message_columns);
	MessageQueue queue = message_queue(fcinfo, ACL_SELECT | ACL_UPDATE);
	int64 vt = DatumGetInt32(required(fcinfo, 1, "vt")) * USECS_PER_SEC;
	Datum *ids = nullptr;
	int n = given(fcinfo, 2) ? elements_of(PG_GETARG_DATUM(2), INT8OID, "msg_ids", &ids) : 0;
	for (int i = 0; i < n; i++)
	{
		Message message;
		CHECK_FOR_INTERRUPTS();
		if (take_message(queue, DatumGetInt64(ids[i]), vt, &message))
			result.put_values(message.values, message.nulls, kMessageColumns);
	}
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_mq_pop(PG_FUNCTION_ARGS)
{
	/* Claim messages and end them; then end messages that a claim has left, without leases. */
	start_write("pgmq.pop()");
	ResultRows result(fcinfo, "message_record", message_columns);
	MessageRead read{};
	read.queue = message_queue(fcinfo, ACL_SELECT | ACL_DELETE);
	read.ref = jobs_of(read.queue);
	int most = given(fcinfo, 1) ? Min(PG_GETARG_INT32(1), kMostAtOnce) : kMostAtOnce;
	if (most < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_ROW_COUNT_IN_LIMIT_CLAUSE),
						errmsg("qty must not be negative")));
	if (most == 0)
		return (Datum) 0;
	auto *messages = static_cast<Message *>(palloc(most * sizeof(Message)));
	ClaimedMessages claimed = {&result, messages,
							   static_cast<int64 *>(palloc(most * sizeof(int64))),
							   CurrentMemoryContext, 0};
	int n = claim_messages(
		read, {note_claimed, forget_claimed, end_claimed, &claimed, CurrentMemoryContext}, 0, most);
	if (n < most && may_have_left(read))
	{
		n = end_messages(read.queue, most - n, messages);
		for (int i = 0; i < n; i++)
			result.put_values(messages[i].values, messages[i].nulls, kMessageColumns);
	}
	return (Datum) 0;
}
}
