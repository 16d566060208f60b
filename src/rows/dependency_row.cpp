#include "rows/dependency_row.h"

#include "catalog/tables.h"
#include "pg/clock.h"
#include "rows/index.h"
#include "rows/late_index.h"
#include "rows/tuple.h"

namespace pgq {

static constinit LateIndex dependency_by_parent = {
	{"job_dependency_by_parent", {{kDependencyParent}, {kDependencyChild}}, nullptr}, false, 0, 0};
static constinit LateIndex outcome_by_id = {
	{"job_outcome_by_id", {{kOutcomeJobId}}, nullptr}, false, 0, 0};

/* ---- tables ---- */

/* Open the table, and check that it has these columns. Raises 55000 if the table is missing. */
static Relation
open_plain_table(Oid table, const char *name, const Column *columns, int n, LOCKMODE mode)
{
	if (!OidIsValid(table))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("relation \"pgq_ext.%s\" is missing", name),
						errhint("Run ALTER EXTENSION pgq_ext UPDATE.")));
	Relation rel = table_open(table, mode);
	check_columns(rel, columns, n);
	return rel;
}

static Relation
open_dependencies(LOCKMODE mode)
{
	return open_plain_table(look_at_tables().job_dependency(), "job_dependency", dependency_columns,
							kDependencyColumns, mode);
}

static Relation
open_outcomes(LOCKMODE mode)
{
	return open_plain_table(look_at_tables().job_outcome(), "job_outcome", outcome_columns,
							kOutcomeColumns, mode);
}

/* ---- insert ---- */

/*
 * Insert n rows. fill(i, values, nulls) sets the values of row i; before the call, all nulls are
 * true.
 */
template <typename Fill>
static void
insert_plain_rows(Relation rel, int columns, int n, Fill fill)
{
	TupleFormer former(rel);
	auto *tuples = static_cast<HeapTuple *>(palloc(n * sizeof(HeapTuple)));
	auto *values = static_cast<Datum *>(palloc0(columns * sizeof(Datum)));
	auto *nulls = static_cast<bool *>(palloc(columns * sizeof(bool)));
	for (int i = 0; i < n; i++)
	{
		memset(nulls, true, columns * sizeof(bool));
		fill(i, values, nulls);
		tuples[i] = former.form(values, nulls, columns);
	}
	insert_tuples(rel, tuples, n);
	insert_all_index_entries(rel, tuples, n);
	for (int i = 0; i < n; i++)
		heap_freetuple(tuples[i]);
	pfree(tuples);
	pfree(values);
	pfree(nulls);
}

void
lock_dependencies()
{
	table_close(open_dependencies(RowExclusiveLock), NoLock);
}

void
add_dependencies(const Dependency *dependencies, int n)
{
	if (n == 0)
		return;
	Relation rel = open_dependencies(RowExclusiveLock);
	insert_plain_rows(rel, kDependencyColumns, n, [&](int i, Datum *values, bool *nulls) {
		auto set = [&](DependencyColumn column, Datum value) {
			values[column - 1] = value;
			nulls[column - 1] = false;
		};
		const Dependency &d = dependencies[i];
		set(kDependencyParent, Int64GetDatum(d.parent_id));
		set(kDependencyChild, Int64GetDatum(d.child_id));
		set(kDependencyOnFailure, Int16GetDatum(static_cast<int16>(d.on_failure)));
		if (d.ref != nullptr)
			set(kDependencyRef, PointerGetDatum(d.ref));
	});
	table_close(rel, NoLock);
}

void
add_outcomes(const OutcomeRow *outcomes, int n)
{
	if (n == 0)
		return;
	Relation rel = open_outcomes(RowExclusiveLock);
	Datum now = TimestampTzGetDatum(wall_now());
	insert_plain_rows(rel, kOutcomeColumns, n, [&](int i, Datum *values, bool *nulls) {
		auto set = [&](OutcomeColumn column, Datum value) {
			values[column - 1] = value;
			nulls[column - 1] = false;
		};
		const OutcomeRow &row = outcomes[i];
		set(kOutcomeJobId, Int64GetDatum(row.job_id));
		set(kOutcomeWhat, Int16GetDatum(static_cast<int16>(row.outcome)));
		set(kOutcomeEndedAt, now);
		set(kOutcomeQueueId, Int32GetDatum(row.queue_id));
		if (row.result != nullptr)
			set(kOutcomeResult, PointerGetDatum(row.result));
		if (row.error != nullptr)
			set(kOutcomeError, PointerGetDatum(row.error));
	});
	table_close(rel, NoLock);
}

/* ---- look ---- */

/*
 * Call visit(tuple, buffer, desc) for the row versions to which the index leads, until visit()
 * returns true. The lock of the version's buffer is held during the call. job_id: value of the
 * first column of the index; NULL: visit all versions.
 */
template <typename Visit>
static void
visit_plain_versions(Relation rel, LateIndex *index, const int64 *job_id, Visit visit)
{
	Oid found = late_index(rel, index);
	if (RelationGetNumberOfBlocks(rel) == 0)
		return;
	IndexLookup lookup{};
	open_index_lookup(&lookup, rel, found, job_id != nullptr ? 1 : 0);
	ScanKeyData key;
	if (job_id != nullptr)
		ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(*job_id));
	index_rescan(lookup.scan, &key, job_id != nullptr ? 1 : 0, nullptr, 0);
	for (bool done = false; !done && next_version(&lookup);)
	{
		done = visit(lookup.tuple, lookup.buffer, RelationGetDescr(rel));
		unlock_version(&lookup);
	}
	end_index_lookup(&lookup);
}

/*
 * Return true unless the version is dead. A version that this transaction has deleted counts as
 * dead. *decider: set to another session's open transaction that has inserted the version or is
 * deleting it, if there is one.
 */
static bool
is_there(HeapTuple tuple, Buffer buffer, TransactionId *decider)
{
	TransactionId dead_after;
	TransactionId xid = InvalidTransactionId;
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
			return true;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			xid = HeapTupleHeaderGetXmin(tuple->t_data);
			if (!TransactionIdIsCurrentTransactionId(xid))
				*decider = xid;
			return true;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			xid = HeapTupleHeaderGetUpdateXid(tuple->t_data);
			if (TransactionIdIsCurrentTransactionId(xid))
				return false;
			*decider = xid;
			return true;
		default:
			return false;
	}
}

static bool
is_any_dependency(const int64 *parent_id)
{
	bool found = false;
	if (!OidIsValid(look_at_tables().job_dependency()))
		return false;
	Relation rel = open_dependencies(AccessShareLock);
	visit_plain_versions(rel, &dependency_by_parent, parent_id,
						 [&](HeapTuple tuple, Buffer buffer, TupleDesc) {
							 TransactionId decider;
							 found = is_there(tuple, buffer, &decider);
							 return found;
						 });
	table_close(rel, AccessShareLock);
	return found;
}

bool
has_children(int64 parent_id)
{
	return is_any_dependency(&parent_id);
}

bool
has_dependencies()
{
	return is_any_dependency(nullptr);
}

const char *
name_of_outcome(JobOutcome outcome)
{
	static constexpr const char *names[] = {nullptr,  "acked",	 "cancelled", "expired",
											"purged", "dropped", "deleted",	  "dead"};
	auto i = static_cast<size_t>(outcome);
	return i > 0 && i < lengthof(names) ? names[i] : "unknown";
}

bool
find_outcome(int64 job_id, JobOutcome *outcome, TransactionId *decider, int32 *queue_id)
{
	bool found = false;
	Relation rel = open_outcomes(AccessShareLock);
	visit_plain_versions(
		rel, &outcome_by_id, &job_id, [&](HeapTuple tuple, Buffer buffer, TupleDesc desc) {
			TransactionId open = InvalidTransactionId;
			if (!is_there(tuple, buffer, &open))
				return false;
			bool is_null;
			if (queue_id != nullptr)
				*queue_id = DatumGetInt32(heap_getattr(tuple, kOutcomeQueueId, desc, &is_null));
			if (TransactionIdIsValid(open))
			{
				*decider = open;
				return false;
			}
			found = true;
			*outcome = static_cast<JobOutcome>(
				DatumGetInt16(heap_getattr(tuple, kOutcomeWhat, desc, &is_null)));
			return true;
		});
	table_close(rel, AccessShareLock);
	return found;
}

} // namespace pgq
