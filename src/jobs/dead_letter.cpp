#include "jobs/dead_letter.h"

#include "catalog/owner_sql.h"
#include "catalog/queue_lock.h"
#include "catalog/values.h"
#include "engine/token.h"
#include "enqueue/enqueue.h"
#include "load/attach.h"
#include "pg/stop_point.h"
#include "rows/deleted_member.h"
#include "steps/depth.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Insert the deleted dead letters as jobs; the row trigger of the table files them. The new fence
 * cuts off late acks of workers that had the job before it died. batch is
 * ", batch_id, parents", or empty if the tables have no such columns (Tables::has_batches).
 */
#define PGQ_INSERT_REVIVED(run_at, batch)                                                  \
	"INSERT INTO pgq_ext.job (job_id, run_at, enqueued_at, queue_id, priority, attempts, " \
	"segment, "                                                                            \
	"payload, max_attempts, fence, group_key, unique_key, headers, last_error" batch ") "  \
	"SELECT job_id, " run_at ", enqueued_at, queue_id, priority, 0, $3, payload, "         \
	"max_attempts, $4, group_key, unique_key, headers, last_error" batch " FROM gone"

static constexpr char kDelete[] =
	"DELETE FROM pgq_ext.dead_job WHERE job_id OPERATOR(pg_catalog.=) $1 "
	"AND queue_id OPERATOR(pg_catalog.=) $2";

static constexpr char kExplain[] =
	"UPDATE pgq_ext.dead_job SET fence = $2, last_error = COALESCE($3, last_error) "
	"WHERE job_id OPERATOR(pg_catalog.=) $1 "
	"AND fence OPERATOR(pg_catalog.=) OPERATOR(pg_catalog.-) $2 "
	"AND queue_id OPERATOR(pg_catalog.=) $4";

static constexpr char kExplainAttempt[] =
	"UPDATE pgq_ext.attempt SET outcome = 'failed', reason = $4, error = $3 "
	"WHERE job_id OPERATOR(pg_catalog.=) $1 AND lease OPERATOR(pg_catalog.=) $2 "
	"AND outcome OPERATOR(pg_catalog.=) 'lost'";

/*
 * A delayed job needs a run_at after its enqueued_at, even if the clock was set back since the
 * enqueue.
 */
#define PGQ_RETRIED_AT                                                   \
	"GREATEST($2, CASE WHEN $5 THEN enqueued_at OPERATOR(pg_catalog.+) " \
	"'1 us'::pg_catalog.interval END)"
#define PGQ_RETRIED                                                                   \
	"WITH gone AS (DELETE FROM pgq_ext.dead_job d "                                   \
	"WHERE d.job_id OPERATOR(pg_catalog.=) $1 AND d.queue_id OPERATOR(pg_catalog.=) " \
	"$6 " PGQ_MATCHES("$7", "$8", "$9", "$10") "RETURNING *) "
#define PGQ_REVIVE(batch) PGQ_RETRIED PGQ_INSERT_REVIVED(PGQ_RETRIED_AT, batch)
/* Indexed by Tables::has_batches. */
static constexpr const char *kRevive[] = {PGQ_REVIVE(""), PGQ_REVIVE(", batch_id, parents")};

static constexpr char kFind[] =
	"SELECT d.queue_id, CASE WHEN q.max_depth OPERATOR(pg_catalog.>) 0 THEN q.queue END "
	"FROM pgq_ext.dead_job d LEFT JOIN pgq_ext.queue q USING (queue_id) "
	"WHERE d.job_id OPERATOR(pg_catalog.=) $1";

/* Find dead letters to redrive, in the order in which they died. */
static constexpr char kFindMatching[] =
	"SELECT d.job_id FROM pgq_ext.dead_job d WHERE d.queue_id OPERATOR(pg_catalog.=) "
	"$1 " PGQ_MATCHES("$2", "$3", "$4", "$5") "ORDER BY d.died_at, d.job_id";

/*
 * Redrive those dead letters with the ids $5 that still match. The statement finds the rows of both
 * tables by their ids, whatever the statistics say: no index can be used for a condition in a CASE.
 * Otherwise each step might read all dead letters of the queue.
 */
#define PGQ_IS_LIVE                                                                  \
	"d.job_id OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT j.job_id FROM pgq_ext.job j " \
	"WHERE j.job_id OPERATOR(pg_catalog.=) ANY ($5)))"
#define PGQ_CHOSEN                                                        \
	"WITH chosen AS (SELECT d.job_id FROM pgq_ext.dead_job d "            \
	"WHERE d.job_id OPERATOR(pg_catalog.=) ANY ($5) AND NOT " PGQ_IS_LIVE \
	" AND CASE WHEN d.queue_id OPERATOR(pg_catalog.=) $1 " PGQ_MATCHES(   \
		"$6", "$7", "$8", "$9") "THEN true END FOR UPDATE OF d SKIP LOCKED), "
#define PGQ_REDRIVEN                                                                \
	"gone AS (DELETE FROM pgq_ext.dead_job d "                                      \
	"WHERE d.job_id OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT job_id FROM chosen)) " \
	"AND CASE WHEN d.queue_id OPERATOR(pg_catalog.=) $1 THEN true END RETURNING d.*) "
#define PGQ_REDRIVE(batch) PGQ_CHOSEN PGQ_REDRIVEN PGQ_INSERT_REVIVED("$2", batch)
/* Indexed by Tables::has_batches. */
static constexpr const char *kRedrive[] = {PGQ_REDRIVE(""), PGQ_REDRIVE(", batch_id, parents")};

namespace {

struct DeadLetter
{
	int32 queue_id;
	bool limited; /* the queue has a max_depth */
	/* name of the queue; set only if `limited` */
	char queue[kQueueNameMax + 1];
};

} // namespace
/*
 * Find the dead letter. Returns false if there is no such dead letter, or if the caller lacks the
 * right for `permission`.
 */
static bool
find_permitted(int64 job_id, Permission permission, DeadLetter *letter)
{
	const SpiArgument id[] = {{INT8OID, Int64GetDatum(job_id), false}};
	bool found = false;
	as_owner([&] {
		bool is_null;
		found = spi_execute(kFind, id) > 0;
		if (!found)
			return;
		letter->queue_id = DatumGetInt32(spi_value(0, 1, INT4OID));
		Datum name = spi_value(0, 2, TEXTOID, &is_null);
		letter->limited = !is_null;
		if (letter->limited)
			strlcpy(letter->queue, TextDatumGetCString(name), sizeof(letter->queue));
	});
	return found && may(permission, letter->queue_id);
}

/*
 * Run a statement that changes records, as the owner, and return the number of its rows. kind: what
 * the triggers of the records are told. A statement that finds a row which is being moved raises
 * 40001. So first wait until no scheduler moves records (ring/records.cpp), and keep moves from
 * beginning until the statement has ended. Afterwards the changed rows are locked by this
 * transaction, and moves skip them.
 */
template <size_t n>
static uint64
change_records(StatementKind kind, const char *sql, const SpiArgument (&arguments)[n])
{
	uint64 changed = 0;
	(void) lock_queue(0, QueueLock::kMoves, ShareLock, true);
	as_owner([&] { with_statement_kind(kind, [&] { changed = spi_execute(sql, arguments); }); });
	unlock_queue(0, QueueLock::kMoves, ShareLock);
	return changed;
}

bool
delete_dead_letter(int64 job_id)
{
	DeadLetter letter;
	if (!find_permitted(job_id, Permission::kChange, &letter))
		return false;
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(job_id), false},
									 {INT4OID, Int32GetDatum(letter.queue_id), false}};
	return change_records(StatementKind::kRecords, kDelete, arguments) > 0;
}

bool
explain_dead_letter(int64 job_id, int64 token, bool has_error, Datum error)
{
	DeadLetter letter;
	if (!find_permitted(job_id, Permission::kAnswer, &letter))
		return false;
	const SpiArgument arguments[] = {
		{INT8OID, Int64GetDatum(job_id), false},
		{INT8OID, Int64GetDatum(token), false},
		{TEXTOID, error, !has_error},
		{INT4OID, Int32GetDatum(letter.queue_id), false},
	};
	return change_records(StatementKind::kRecords, kExplain, arguments) > 0;
}

void
explain_attempt(int64 job_id, int64 token, bool has_error, Datum error, const char *death)
{
	const SpiArgument arguments[] = {
		{INT8OID, Int64GetDatum(job_id), false},
		{INT8OID, Int64GetDatum(token), false},
		{TEXTOID, error, !has_error},
		{TEXTOID, death != nullptr ? CStringGetTextDatum(death) : Datum{0}, death == nullptr},
	};
	(void) change_records(StatementKind::kRecords, kExplainAttempt, arguments);
}

static SpiArgument
current_segment()
{
	return {INT2OID, Int16GetDatum(static_cast<int16>(look_at_tables().current(kJobRing).number)),
			false};
}

static SpiArgument
fence()
{
	return {INT8OID, Int64GetDatum(cut_tokens(tables().database)), false};
}

/*
 * Take room for revived jobs. The row trigger has already counted them as rows inserted by SQL,
 * which take no room; that count is undone first.
 */
static void
enter_revived(const QueueRef &ref, int64 jobs)
{
	note_rows(ref, tables().queue, -jobs);
	enter_queue(ref, jobs);
}

bool
revive_dead_letter(int64 job_id, Datum delay, const JobFilter &filter)
{
	DeadLetter letter;
	if (!find_permitted(job_id, Permission::kChange, &letter))
		return false;
	/*
	 * Lock the queue before the dead letter is deleted. Take room afterwards, and only if the dead
	 * letter still existed and belonged to that queue.
	 */
	QueueRef ref;
	if (letter.limited)
		ref = queue_for_enqueue(letter.queue, Permission::kChange);
	TimestampTz now = wall_now();
	TimestampTz due = moment_after(now, delay, "delay");
	const SpiArgument arguments[] = {
		{INT8OID, Int64GetDatum(job_id), false},
		{TIMESTAMPTZOID, TimestampTzGetDatum(due), false},
		current_segment(),
		fence(),
		{BOOLOID, BoolGetDatum(due > now), false},
		{INT4OID, Int32GetDatum(letter.queue_id), false},
		filter.error_like,
		filter.since,
		filter.before,
		filter.group_key,
	};
	bool found = change_records(StatementKind::kRevive, kRevive[look_at_tables().has_batches],
								arguments) > 0;
	if (found && letter.limited && letter.queue_id == ref.queue_id)
		enter_revived(ref, 1);
	return found;
}

/* ---- redrive ---- */

/* How many dead letters one statement redrives. */
static constexpr int64 kRedriveStep = 1000;

/* Return the ids of the rows that spi_fetch() has read, as an array. */
static Datum
fetched_ids(uint64 n)
{
	auto *ids = static_cast<Datum *>(palloc(n * sizeof(Datum)));
	for (uint64 i = 0; i < n; i++)
		ids[i] = spi_value(static_cast<int>(i), 1, INT8OID);
	ArrayType *array = construct_array(ids, static_cast<int>(n), INT8OID, sizeof(int64),
									   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	pfree(ids);
	SPI_freetuptable(SPI_tuptable);
	return PointerGetDatum(array);
}

/*
 * Lock the segments of dead letters before a snapshot is taken, so that none of them is truncated
 * behind the snapshot (protocol: counted-by-snapshot).
 */
static void
lock_dead_letters()
{
	Oid heaps[segments_in(kDeadRing)];
	int n = 0;
	for (const Segment &segment : look_at_tables().segments(kDeadRing))
		heaps[n++] = segment.heap;
	for (Oid heap : heaps)
		LockRelationOid(heap, AccessShareLock);
}

/*
 * Call redrive_ids(array of ids), which returns how many it has redriven, for all dead letters that
 * match: kRedriveStep at a time, until `most` are redriven. Only the cursor reads all dead letters;
 * it keeps no scheduler from moving records. A dead letter that is moved, redriven, deleted or dies
 * again behind the cursor's snapshot is judged anew by redrive_ids(). Return how many are redriven.
 */
template <typename Redrive>
static int64
for_matching(int32 queue_id, int64 most, const JobFilter &filter, Redrive redrive_ids)
{
	const SpiArgument arguments[] = {{INT4OID, Int32GetDatum(queue_id), false},
									 filter.error_like,
									 filter.since,
									 filter.before,
									 filter.group_key};
	int64 redriven = 0;
	as_owner([&] {
		/* Open the cursor, with locks that hold until the transaction ends. */
		read_in_order();
		lock_dead_letters();
		Portal cursor = spi_open(kFindMatching, arguments);
		/* Fetch ids, and redrive them, until there are no more. */
		while (most < 0 || redriven < most)
		{
			int64 wanted = most < 0 ? kRedriveStep : Min(kRedriveStep, most - redriven);
			uint64 n = spi_fetch(cursor, wanted);
			if (n == 0)
				break;
			Datum ids = fetched_ids(n);
			stop_point("redrive-found");
			redriven += redrive_ids(ids);
			pfree(DatumGetPointer(ids));
			CHECK_FOR_INTERRUPTS();
		}
		SPI_cursor_close(cursor);
	});
	return redriven;
}

int64
redrive(const char *queue, int64 most, const JobFilter &filter)
{
	QueueRef ref = queue_for_enqueue(queue, Permission::kAdminister);
	const SpiArgument now = {TIMESTAMPTZOID, TimestampTzGetDatum(wall_now()), false};
	const char *sql = kRedrive[look_at_tables().has_batches];
	/* A fence for each step: a job may have been handed out and died again since the last step. */
	int64 revived = for_matching(ref.queue_id, most, filter, [&](Datum ids) {
		const SpiArgument arguments[] = {
			{INT4OID, Int32GetDatum(ref.queue_id), false},
			now,
			current_segment(),
			fence(),
			{INT8ARRAYOID, ids, false},
			filter.error_like,
			filter.since,
			filter.before,
			filter.group_key,
		};
		return static_cast<int64>(change_records(StatementKind::kRevive, sql, arguments));
	});
	enter_revived(ref, revived);
	return revived;
}

} // namespace pgq
