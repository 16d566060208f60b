#include "jobs/parents.h"

#include "catalog/owner_sql.h"
#include "catalog/tables.h"
#include "jobs/finish.h"
#include "rows/dependency_row.h"

namespace pgq {

/*
 * The statement that finds all parents. One statement reads all tables with one snapshot, as the
 * scheduler does when it judges the child. LATERAL with LIMIT keeps the planner from reading all jobs.
 */
static constexpr char kFindParents[] =
	"SELECT d.parent_id, d.ref, "
	"CASE WHEN j.job_id IS NOT NULL THEN CASE WHEN pgq_ext.is_leased(j.job_id) THEN 'leased' "
	"ELSE 'waiting' END WHEN l.job_id IS NOT NULL THEN 'dead' END, "
	"CASE WHEN j.job_id IS NULL AND l.job_id IS NULL THEN o.outcome END, "
	"CASE WHEN j.job_id IS NULL AND l.job_id IS NULL THEN o.result END, "
	"CASE WHEN j.job_id IS NULL THEN COALESCE(l.last_error, o.error) END "
	"FROM pgq_ext.job_dependency d "
	"LEFT JOIN LATERAL (SELECT job_id FROM pgq_ext.job j "
	"WHERE j.job_id = d.parent_id LIMIT 1) j ON true "
	"LEFT JOIN LATERAL (SELECT job_id, last_error FROM pgq_ext.dead_job l "
	"WHERE l.job_id = d.parent_id LIMIT 1) l ON true "
	"LEFT JOIN LATERAL (SELECT outcome, result, error FROM pgq_ext.job_outcome o "
	"WHERE o.job_id = d.parent_id ORDER BY ended_at DESC LIMIT 1) o ON true "
	"WHERE d.child_id = $1 ORDER BY d.parent_id";

/* Copy a value of the last result to the memory context. */
static Datum
copy_out(int row, int column, Oid type, MemoryContext memory, bool *has)
{
	bool is_null;
	Datum value = spi_value(row, column, type, &is_null);
	*has = !is_null;
	if (is_null)
		return Datum{0};
	MemoryContext previous = MemoryContextSwitchTo(memory);
	value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	MemoryContextSwitchTo(previous);
	return value;
}

static void
read_parent(int row, MemoryContext memory, ParentState *parent)
{
	bool is_null;
	parent->parent_id = DatumGetInt64(spi_value(row, 1, INT8OID));
	parent->ref = copy_out(row, 2, TEXTOID, memory, &parent->has_ref);
	Datum live = spi_value(row, 3, TEXTOID, &is_null);
	if (!is_null)
		parent->state = MemoryContextStrdup(memory, TextDatumGetCString(live));
	else
	{
		Datum outcome = spi_value(row, 4, INT2OID, &is_null);
		parent->state =
			is_null ? "unknown" : name_of_outcome(static_cast<JobOutcome>(DatumGetInt16(outcome)));
	}
	parent->result = copy_out(row, 5, JSONBOID, memory, &parent->has_result);
	parent->error = copy_out(row, 6, TEXTOID, memory, &parent->has_error);
}

bool
find_parents(int64 job_id, int64 token, ParentState **parents, int *n)
{
	MemoryContext caller = CurrentMemoryContext;
	*n = 0;
	*parents = nullptr;
	if (!assert_lease(job_id, token))
		return false;
	if (!OidIsValid(look_at_tables().job_dependency()))
		return true;
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(job_id), false}};
	as_owner([&] {
		require_is_leased();
		find_by_index();
		*n = static_cast<int>(spi_execute(kFindParents, arguments));
		*parents = static_cast<ParentState *>(
			MemoryContextAllocZero(caller, Max(*n, 1) * sizeof(ParentState)));
		for (int i = 0; i < *n; i++)
			read_parent(i, caller, *parents + i);
	});
	return true;
}

} // namespace pgq
