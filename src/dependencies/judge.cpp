#include "dependencies/judge.h"

#include "catalog/owner_sql.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "rows/blocked.h"
#include "rows/dependency_row.h"
#include "steps/change_row.h"
#include "steps/end_row.h"
#include "txn/effects.h"

#include <algorithm>

namespace pgq {

static constexpr int kParentsAtOnce = 2000; /* in one step */

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

/* With many parents a step reads at most kChildrenAtOnce dependencies of each. */
int
children_of(const int64 *parents, int n, int64 after, int64 (&ids)[kChildrenAtOnce])
{
	static KeptPlan plan;
	const SpiArgument arguments[] = {id_array(parents, n),
									 {INT8OID, Int64GetDatum(after), false},
									 {INT4OID, Int32GetDatum(kChildrenAtOnce), false}};
	return find_children(&plan,
						 "SELECT DISTINCT c.child_id FROM unnest($1) AS p (id), LATERAL ("
						 "SELECT child_id FROM pgq_ext.job_dependency WHERE parent_id = p.id "
						 "AND child_id > $2 ORDER BY child_id LIMIT $3) c ORDER BY 1 LIMIT $3",
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

/*
 * A child with a parent that has failed is cancelled, unless its on_failure is kRun. If dependencies
 * that SQL has inserted name different values, the greatest one counts, as in kJudge. LATERAL and
 * LIMIT keep the planner from reading the whole table.
 */
static constexpr char kCancelledBy[] =
	"WITH RECURSIVE c (child_id, parent_id, cancels) AS ("
	"SELECT d.child_id, p.id, d.cancels FROM unnest($1) AS p (id), LATERAL ("
	"SELECT e.child_id, (SELECT count(*) <= $3 AND max(x.on_failure) <> 2 FROM ("
	"SELECT on_failure FROM pgq_ext.job_dependency WHERE child_id = e.child_id LIMIT $3 + 1) x) "
	"AS cancels FROM pgq_ext.job_dependency e WHERE e.parent_id = p.id "
	"ORDER BY e.child_id LIMIT $2) d "
	"UNION "
	"SELECT d.child_id, c.child_id, d.cancels FROM c, LATERAL ("
	"SELECT e.child_id, (SELECT count(*) <= $3 AND max(x.on_failure) <> 2 FROM ("
	"SELECT on_failure FROM pgq_ext.job_dependency WHERE child_id = e.child_id LIMIT $3 + 1) x) "
	"AS cancels FROM pgq_ext.job_dependency e WHERE e.parent_id = c.child_id "
	"ORDER BY e.child_id LIMIT $2) d WHERE c.cancels) "
	"SELECT child_id, parent_id, cancels FROM c LIMIT $2";
static_assert(static_cast<int>(OnFailure::kRun) == 2);

int
cancelled_by(const int64 *parents, int n, int most, CancelEdge (&edges)[kChildrenAtOnce])
{
	static KeptPlan plan;
	const SpiArgument arguments[] = {
		id_array(parents, n),
		{INT4OID, Int32GetDatum(most), false},
		{INT4OID, Int32GetDatum(kParentsAtOnce / kChildrenAtOnce), false}};
	int edges_n = 0;
	spi_begin();
	auto found = static_cast<int>(spi_execute_kept(&plan, kCancelledBy, arguments));
	for (int i = 0; i < found; i++)
		if (DatumGetBool(spi_value(i, 3, BOOLOID)))
			edges[edges_n++] = {DatumGetInt64(spi_value(i, 1, INT8OID)),
								DatumGetInt64(spi_value(i, 2, INT8OID))};
	SPI_finish();
	return edges_n;
}

/* ---- the judgement ---- */

namespace {

/* What one snapshot shows of the parents of a child. */
struct Parents
{
	OnFailure on_failure;
	bool any_live;
	bool any_dead;	  /* a dead letter */
	bool any_failed;  /* a parent has ended in another way than by an ack */
	bool any_unknown; /* a parent is in no table, or a dependency is missing */
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
 * Remove the ids of jobs that are not blocked. Stop before the child with which the number of parents
 * would become greater than kParentsAtOnce, unless this child is the first one. Returns the number of
 * ids that are left; *n is set to the number of ids that were looked at.
 */
static int
blocked_among(const int64 *ids, int *n, int64 (&blocked)[kChildrenAtOnce])
{
	static KeptPlan plan;
	const SpiArgument arguments[] = {id_array(ids, *n)};
	int64 parents = 0;
	int kept = 0;
	spi_begin();
	auto found = static_cast<int>(
		spi_execute_kept(&plan,
						 "SELECT job_id, COALESCE(parents, 0) FROM pgq_ext.job "
						 "WHERE job_id = ANY($1) AND blocked IS NOT NULL ORDER BY job_id",
						 arguments));
	for (; kept < found; kept++)
	{
		int64 child_id = DatumGetInt64(spi_value(kept, 1, INT8OID));
		parents += DatumGetInt32(spi_value(kept, 2, INT4OID));
		if (kept > 0 && parents > kParentsAtOnce)
		{
			*n = static_cast<int>(std::lower_bound(ids, ids + *n, child_id) - ids);
			break;
		}
		blocked[kept] = child_id;
	}
	SPI_finish();
	return kept;
}

/*
 * The statement that finds the states of all parents. A child that has fewer dependencies than
 * parents has unknown parents: some of its dependencies were deleted. A job may have several
 * outcomes if SQL has inserted the job again; then the newest outcome counts. OFFSET keeps the planner
 * from reading all jobs for a hash table of their ids.
 */
static constexpr char kJudge[] =
	"WITH d AS (SELECT child_id, on_failure, "
	"EXISTS (SELECT FROM pgq_ext.job j WHERE j.job_id = parent_id OFFSET 0) AS live, "
	"EXISTS (SELECT FROM pgq_ext.dead_job l WHERE l.job_id = parent_id OFFSET 0) AS dead, "
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
	"WHERE c.job_id = ANY($1) AND c.blocked IS NOT NULL GROUP BY c.job_id";
static_assert(static_cast<int>(JobOutcome::kAcked) == 1);

int
judge_children(const int64 *ids, int *n, Judged (&judged)[kChildrenAtOnce])
{
	static KeptPlan plan;
	int64 blocked[kChildrenAtOnce];
	int kept = 1;
	/* Most steps of a worker that acknowledges one parent after the other have one child. */
	if (*n == 1)
		blocked[0] = ids[0];
	else if (kept = blocked_among(ids, n, blocked); kept == 0)
		return 0;
	const SpiArgument arguments[] = {id_array(blocked, kept)};
	spi_begin();
	auto found = static_cast<int>(spi_execute_kept(&plan, kJudge, arguments));
	for (int i = 0; i < found; i++)
	{
		auto flag = [i](int column) { return DatumGetBool(spi_value(i, column, BOOLOID)); };
		const Parents parents = {static_cast<OnFailure>(DatumGetInt16(spi_value(i, 2, INT2OID))),
								 flag(3), flag(4), flag(5), flag(6)};
		judged[i] = {DatumGetInt64(spi_value(i, 1, INT8OID)), verdict_on(parents, false),
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

bool
settle_child(int64 child_id, bool ready)
{
	JobRow row;
	QueueRef ref;
	Lease *lease;
	VirtualTransactionId other;
	bool done = false;
	SegmentSet segments(RowExclusiveLock);
	if (lock_job_now(segments, Place{}, child_id, &row) == WriteResult::kDone && row.blocked() &&
		find_attached_queue(tables().database, row.queue_id(), &ref) &&
		take_lease_to_end(ref, row.hint(), ready ? LeaseEnd::kChanged : LeaseEnd::kCancelled,
						  &lease, &other) == TakeResult::kTaken)
	{
		done = ready ? make_ready(segments, row)
					 : end_locked_row(segments, ref, row, RowEnd::kCancelled);
		if (!done && !ready)
			set_end(lease, LeaseEnd::kChanged);
	}
	segments.close();
	return done;
}

} // namespace pgq
