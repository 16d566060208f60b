#include "dependencies/garbage.h"

#include "catalog/owner_sql.h"
#include "catalog/tables.h"
#include "engine/child_watch.h"
#include "load/attach.h"
#include "pg/stop_point.h"
#include "pg/survive.h"
#include "rows/dependency_row.h"

namespace pgq {

static constexpr int kGarbageAtOnce = 1000;

/*
 * OFFSET in the statements below keeps the planner from reading a whole table for a join with it.
 */

/*
 * Run a statement that looks for garbage. The first column of its result is the position at which
 * the next call goes on; the second column has the ids of the garbage. Returns the number of ids.
 */
static int
find_garbage(const char *sql, int64 *last, Datum **ids)
{
	MemoryContext caller = CurrentMemoryContext;
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(*last), false},
									 {INT4OID, Int32GetDatum(kGarbageAtOnce), false}};
	spi_begin();
	auto rows = static_cast<int>(spi_execute(sql, arguments));
	*ids = static_cast<Datum *>(MemoryContextAlloc(caller, (rows + 1) * sizeof(Datum)));
	*last = DatumGetInt64(spi_value(0, 1, INT8OID));
	int n = 0;
	for (int i = 0; i < rows; i++)
	{
		bool is_null;
		Datum id = spi_value(i, 2, INT8OID, &is_null);
		if (!is_null)
			(*ids)[n++] = id;
	}
	SPI_finish();
	return n;
}

static void
delete_garbage(const char *sql, Datum *ids, int n)
{
	ArrayType *array =
		construct_array(ids, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	const SpiArgument arguments[] = {{INT8ARRAYOID, PointerGetDatum(array), false}};
	spi_begin();
	(void) spi_execute(sql, arguments);
	SPI_finish();
}

/* ---- dependencies ---- */

int
delete_dependencies(int64 *last)
{
	Datum *ids;
	int n = find_garbage(
		"WITH looked AS (SELECT child_id FROM pgq_ext.job_dependency WHERE child_id > $1 "
		"ORDER BY child_id LIMIT $2), "
		"gone AS (SELECT DISTINCT child_id FROM looked l "
		"WHERE NOT EXISTS (SELECT FROM pgq_ext.job j WHERE j.job_id = l.child_id OFFSET 0) "
		"AND NOT EXISTS (SELECT FROM pgq_ext.dead_job d WHERE d.job_id = l.child_id OFFSET 0)) "
		"SELECT p.last, g.child_id FROM (SELECT CASE WHEN count(*) = $2 THEN max(child_id) ELSE 0 "
		"END AS last FROM looked) p LEFT JOIN gone g ON true",
		last, &ids);
	if (n > 0 && !rows_may_come(tables().database))
		delete_garbage("DELETE FROM pgq_ext.job_dependency WHERE ctid = ANY (ARRAY("
					   "SELECT ctid FROM pgq_ext.job_dependency WHERE child_id = ANY($1) "
					   "FOR UPDATE SKIP LOCKED))",
					   ids, n);
	return n;
}

/* ---- outcomes ---- */

/* Delete the outcomes of these jobs. Raises an error if one of the jobs may have a child. */
static void
delete_childless(Datum *ids, int n)
{
	delete_garbage("DELETE FROM pgq_ext.job_outcome WHERE ctid = ANY (ARRAY("
				   "SELECT ctid FROM pgq_ext.job_outcome WHERE job_id = ANY($1) "
				   "FOR UPDATE SKIP LOCKED))",
				   ids, n);
	stop_point("outcomes-deleted");
	for (int i = 0; i < n; i++)
		if (has_children(DatumGetInt64(ids[i])))
			ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
							errmsg("job %lld has children",
								   static_cast<long long>(DatumGetInt64(ids[i])))));
}

/*
 * Delete the outcomes of these jobs. Returns false, with nothing deleted, if one of the jobs has
 * got a child since the search. Any other error is raised again, after the subtransaction has
 * ended.
 */
static bool
try_to_delete(Datum *ids, int n)
{
	MemoryContext caller = CurrentMemoryContext;
	ErrorData *error = nullptr;
	bool deleted = survives_alone([&] { delete_childless(ids, n); },
								  [&] {
									  if (geterrcode() == ERRCODE_OBJECT_IN_USE)
										  return;
									  MemoryContextSwitchTo(caller);
									  error = CopyErrorData();
								  });
	if (error != nullptr)
		ReThrowError(error);
	return deleted;
}

void
delete_outcomes(int64 *last)
{
	Datum *ids;
	int n = find_garbage(
		"WITH looked AS (SELECT job_id FROM pgq_ext.job_outcome WHERE job_id > $1 "
		"ORDER BY job_id LIMIT $2), "
		"gone AS (SELECT DISTINCT job_id FROM looked l WHERE NOT EXISTS "
		"(SELECT FROM pgq_ext.job_dependency d WHERE d.parent_id = l.job_id OFFSET 0)) "
		"SELECT p.last, g.job_id FROM (SELECT CASE WHEN count(*) = $2 THEN max(job_id) ELSE 0 END "
		"AS last FROM looked) p LEFT JOIN gone g ON true",
		last, &ids);
	if (n == 0 || rows_may_come(tables().database) || try_to_delete(ids, n))
		return;
	for (int i = 0; i < n; i++)
		(void) try_to_delete(&ids[i], 1);
}

} // namespace pgq
