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
 * Return how many of the children this step looks at. A step stops before the child with which the
 * number of parents would become greater than kParentsAtOnce, unless this child is the first one.
 */
static int
within_bound(const int64 *ids, int n)
{
	static constexpr int kParentsAtOnce = 2000;
	static KeptPlan plan;
	const SpiArgument arguments[] = {id_array(ids, n),
									 {INT4OID, Int32GetDatum(kParentsAtOnce), false}};
	spi_begin();
	(void) spi_execute_kept(&plan,
							"SELECT min(c.job_id) FROM (SELECT job_id, parents, sum(parents) OVER "
							"(ORDER BY job_id) AS total FROM pgq_ext.job WHERE job_id = ANY($1) "
							"AND blocked IS NOT NULL) c WHERE c.total > $2 AND c.total > c.parents",
							arguments);
	bool all;
	int64 beyond = DatumGetInt64(spi_value(0, 1, INT8OID, &all));
	SPI_finish();
	return all ? n : static_cast<int>(std::lower_bound(ids, ids + n, beyond) - ids);
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

/*
 * Lock the rows of the children that become ready or are cancelled, or may be, so that the scheduler
 * waits for nobody when it writes them. A child that is not locked is judged later.
 */
static void
lock_judged(Judged *judged, int n)
{
	static KeptPlan plan;
	int64 locked[kChildrenAtOnce];
	int wanted = 0;
	auto may_be_settled = [](const Judged &j) { return j.verdict != Verdict::kWaits; };
	for (int i = 0; i < n; i++)
		if (may_be_settled(judged[i]))
			locked[wanted++] = judged[i].child_id;
	if (wanted == 0)
		return;
	const SpiArgument arguments[] = {id_array(locked, wanted)};
	int locked_n = find_children(&plan,
								 "SELECT job_id FROM pgq_ext.job WHERE job_id = ANY($1) "
								 "AND blocked IS NOT NULL FOR UPDATE SKIP LOCKED",
								 arguments, locked);
	for (int i = 0; i < n; i++)
		if (may_be_settled(judged[i]) &&
			std::find(locked, locked + locked_n, judged[i].child_id) == locked + locked_n)
			judged[i].verdict = Verdict::kLater;
}

int
judge_children(const int64 *ids, int *n, Judged (&judged)[kChildrenAtOnce])
{
	static KeptPlan plan;
	*n = within_bound(ids, *n);
	const SpiArgument arguments[] = {id_array(ids, *n)};
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
	lock_judged(judged, found);
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
	if (locate_job(segments, Place{}, child_id, false, &row) == WriteResult::kDone &&
		row.blocked() && find_attached_queue(tables().database, row.queue_id(), &ref) &&
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
