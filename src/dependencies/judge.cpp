#include "dependencies/judge.h"

#include "catalog/owner_sql.h"
#include "engine/child_watch.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "rows/blocked.h"
#include "rows/dependency_row.h"
#include "steps/change_row.h"
#include "steps/end_row.h"
#include "txn/effects.h"

#include <algorithm>

namespace pgq {

/* ---- which children ---- */

static SpiArgument
id_array(const int64 *ids, int n)
{
	auto *values = static_cast<Datum *>(palloc(n * sizeof(Datum)));
	for (int i = 0; i < n; i++)
		values[i] = Int64GetDatum(ids[i]);
	ArrayType *array =
		construct_array(values, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	return {INT8ARRAYOID, PointerGetDatum(array), false};
}

template <int arguments_n>
static int
find_children(KeptPlan *plan, const char *sql, const SpiArgument (&arguments)[arguments_n],
			  int64 (&ids)[kChildrenAtOnce])
{
	spi_begin();
	auto n = static_cast<int>(spi_execute_kept(plan, sql, arguments));
	for (int i = 0; i < n; i++)
		ids[i] = DatumGetInt64(spi_value(i, 1, INT8OID));
	SPI_finish();
	return n;
}

int
children_of(int64 parent_id, int64 after, int64 (&ids)[kChildrenAtOnce])
{
	static KeptPlan plan;
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(parent_id), false},
									 {INT8OID, Int64GetDatum(after), false},
									 {INT4OID, Int32GetDatum(kChildrenAtOnce), false}};
	return find_children(&plan,
						 "SELECT child_id FROM pgq_ext.job_dependency WHERE parent_id = $1 "
						 "AND child_id > $2 ORDER BY child_id LIMIT $3",
						 arguments, ids);
}

int
blocked_after(int64 after, int64 (&ids)[kChildrenAtOnce])
{
	static KeptPlan plan;
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(after), false},
									 {INT4OID, Int32GetDatum(kChildrenAtOnce), false}};
	return find_children(&plan,
						 "SELECT job_id FROM pgq_ext.job WHERE blocked IS NOT NULL "
						 "AND job_id > $1 ORDER BY job_id LIMIT $2",
						 arguments, ids);
}

/* ---- the judgement ---- */

namespace {

/* What one snapshot says of the parents of a child. */
struct Parents
{
	OnFailure on_failure;
	bool any_live;
	bool any_dead;	  /* a dead letter */
	bool any_failed;  /* ended in another way than by an ack */
	bool any_unknown; /* in no table, or the dependency is missing */
};

} // namespace

/* settled: an unknown parent counts as one that has failed. */
static Verdict
verdict_on(const Parents &parents, bool settled)
{
	bool failed = parents.any_failed || (settled && parents.any_unknown);
	if (parents.on_failure == OnFailure::kRun)
	{
		if (parents.any_live)
			return Verdict::kWaits;
		return parents.any_unknown && !settled ? Verdict::kUnknown : Verdict::kReady;
	}
	if (failed || (parents.any_dead && parents.on_failure != OnFailure::kHold))
		return Verdict::kCancelled;
	if (parents.any_unknown)
		return Verdict::kUnknown;
	return parents.any_live || parents.any_dead ? Verdict::kWaits : Verdict::kReady;
}

/*
 * Lock the rows. Stops at a child that would bring the number of parents above the bound of a step.
 * Returns the number of locked children.
 */
static int
lock_blocked(const int64 *ids, int n, int64 (&locked)[kChildrenAtOnce])
{
	static constexpr int kParentsAtOnce = 2000;
	static KeptPlan plan;
	const SpiArgument arguments[] = {id_array(ids, n)};
	spi_begin();
	auto rows = static_cast<int>(spi_execute_kept(
		&plan,
		"SELECT job_id, COALESCE(parents, 0::smallint) FROM pgq_ext.job WHERE job_id = ANY($1) "
		"AND blocked IS NOT NULL FOR UPDATE SKIP LOCKED",
		arguments));
	int parents = 0;
	int found = 0;
	for (int i = 0; i < rows; i++)
	{
		parents += DatumGetInt16(spi_value(i, 2, INT2OID));
		if (found > 0 && parents > kParentsAtOnce)
			break;
		locked[found++] = DatumGetInt64(spi_value(i, 1, INT8OID));
	}
	SPI_finish();
	return found;
}

/*
 * A child that has fewer dependencies than parents misses some: it has unknown parents. A job may have
 * several outcomes if SQL has inserted it again: the newest counts.
 */
static constexpr char kJudge[] =
	"WITH d AS (SELECT child_id, on_failure, "
	"EXISTS (SELECT FROM pgq_ext.job j WHERE j.job_id = parent_id) AS live, "
	"EXISTS (SELECT FROM pgq_ext.dead_job l WHERE l.job_id = parent_id) AS dead, "
	"(SELECT outcome FROM pgq_ext.job_outcome o WHERE o.job_id = parent_id "
	"ORDER BY ended_at DESC LIMIT 1) AS outcome "
	"FROM pgq_ext.job_dependency WHERE child_id = ANY($1)) "
	"SELECT c.job_id, COALESCE(max(d.on_failure), 1::smallint), "
	"COALESCE(bool_or(d.live), false), "
	"COALESCE(bool_or(d.dead AND NOT d.live), false), "
	"COALESCE(bool_or(d.outcome <> 1 AND NOT d.live AND NOT d.dead), false), "
	"COALESCE(bool_or(d.outcome IS NULL AND NOT d.live AND NOT d.dead), false) "
	"OR count(d.child_id) < max(COALESCE(c.parents, 0)) "
	"FROM pgq_ext.job c LEFT JOIN d ON d.child_id = c.job_id "
	"WHERE c.job_id = ANY($2) AND c.blocked IS NOT NULL GROUP BY c.job_id";
static_assert(static_cast<int>(JobOutcome::kAcked) == 1);

int
judge_children(const int64 *ids, int n, Judged (&judged)[kChildrenAtOnce])
{
	static KeptPlan plan;
	int64 locked[kChildrenAtOnce];
	int locked_n = lock_blocked(ids, n, locked);
	const SpiArgument arguments[] = {id_array(locked, locked_n), id_array(ids, n)};
	spi_begin();
	auto found = static_cast<int>(spi_execute_kept(&plan, kJudge, arguments));
	for (int i = 0; i < found; i++)
	{
		int64 id = DatumGetInt64(spi_value(i, 1, INT8OID));
		auto flag = [i](int column) { return DatumGetBool(spi_value(i, column, BOOLOID)); };
		const Parents parents = {static_cast<OnFailure>(DatumGetInt16(spi_value(i, 2, INT2OID))),
								 flag(3), flag(4), flag(5), flag(6)};
		bool ours = std::find(locked, locked + locked_n, id) != locked + locked_n;
		judged[i] = {id, ours ? verdict_on(parents, false) : Verdict::kLater,
					 verdict_on(parents, true)};
	}
	SPI_finish();
	return found;
}

/* ---- the child ---- */

static bool
make_ready(SegmentSet &segments, const JobRow &row)
{
	TimestampTz now = wall_now();
	JobChange change{};
	change.set_null(kJobBlocked);
	TimestampTz due = end_of_block(DatumGetInt64(row.value(kJobBlocked)), now);
	change.set(kJobRunAt, TimestampTzGetDatum(put_off(row, due, now)));
	return change_waiting(segments, row, change, nullptr);
}

static bool
cancel_child(SegmentSet &segments, const QueueRef &ref, const JobRow &row)
{
	Records records;
	const Finish finish = {&records, nullptr, nullptr};
	bool done = end_row(segments, ref, row.place, row.job_id(), RowEnd::kCancelled, nullptr, true,
						queue_keeps_finished(ref) ? &finish : nullptr) == WriteResult::kDone;
	records.write();
	return done;
}

bool
settle_child(int64 child_id, bool ready)
{
	JobRow row;
	QueueRef ref;
	Lease *lease;
	VirtualTransactionId other;
	bool done = false;
	SegmentSet segments(RowExclusiveLock);
	if (locate_job(segments, Place{}, child_id, false, &row) == WriteResult::kDone &&
		row.blocked() && find_attached_queue(tables().database, row.queue_id(), &ref) &&
		take_lease_to_end(ref, row.hint(), ready ? LeaseEnd::kChanged : LeaseEnd::kCancelled,
						  &lease, &other) == TakeResult::kTaken)
	{
		done = ready ? make_ready(segments, row) : cancel_child(segments, ref, row);
		if (!done && !ready)
			set_end(lease, LeaseEnd::kChanged);
	}
	segments.close();
	return done;
}

} // namespace pgq
