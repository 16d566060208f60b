#include "jobs/checkpoint.h"

#include "catalog/owner_sql.h"
#include "jobs/finish.h"

namespace pgq {

/* Copy a value from the result of the last statement to the caller's memory. */
static Datum
copy_value(int column, MemoryContext caller)
{
	Datum value = spi_value(0, column, JSONBOID);
	MemoryContext previous = MemoryContextSwitchTo(caller);
	value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	MemoryContextSwitchTo(previous);
	return value;
}

static bool
read_checkpoint(int64 job_id, Datum step, MemoryContext caller, Datum *value)
{
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(job_id), false},
									 {TEXTOID, step, false}};
	if (spi_execute("SELECT value FROM pgq_ext.job_checkpoint WHERE job_id = $1 AND step = $2",
					arguments) == 0)
		return false;
	*value = copy_value(1, caller);
	return true;
}

static void
write_checkpoint(int64 job_id, Datum step, Datum value)
{
	const SpiArgument arguments[] = {
		{INT8OID, Int64GetDatum(job_id), false}, {TEXTOID, step, false}, {JSONBOID, value, false}};
	if (spi_execute("INSERT INTO pgq_ext.job_checkpoint (job_id, step, value) SELECT $1, $2, $3 "
					"WHERE (SELECT count(*) FROM (SELECT FROM pgq_ext.job_checkpoint "
					"WHERE job_id = $1 LIMIT 1000) s) < 1000",
					arguments) == 0)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("job %lld has too many checkpoints", static_cast<long long>(job_id)),
						errhint("A job can have at most 1000 steps with a checkpoint.")));
}

bool
keep_checkpoint(int64 job_id, int64 token, Datum step, Datum *value, bool *is_null)
{
	MemoryContext caller = CurrentMemoryContext;
	if (!assert_lease(job_id, token))
		return false;
	as_owner([&] {
		find_by_index();
		if (read_checkpoint(job_id, step, caller, value))
			*is_null = false;
		else if (!*is_null)
			write_checkpoint(job_id, step, *value);
	});
	CommandCounterIncrement();
	return true;
}

int
find_ended_jobs(int64 *last, int64 (&jobs)[kCheckpointsAtOnce])
{
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(*last), false},
									 {INT4OID, Int32GetDatum(kCheckpointsAtOnce), false}};
	spi_begin();
	/*
	 * The statement reads jobs and dead letters with one snapshot. So a job that becomes a dead
	 * letter, or a dead letter that becomes a job, is found in one of the two tables.
	 */
	auto n = static_cast<int>(spi_execute(
		"WITH looked AS (SELECT job_id, kept_at FROM pgq_ext.job_checkpoint WHERE job_id > $1 "
		"ORDER BY job_id LIMIT $2), "
		"ended AS (SELECT DISTINCT job_id FROM looked l "
		"WHERE kept_at < clock_timestamp() - interval '5 min' "
		"AND NOT EXISTS (SELECT FROM pgq_ext.job j WHERE j.job_id = l.job_id) "
		"AND NOT EXISTS (SELECT FROM pgq_ext.dead_job d WHERE d.job_id = l.job_id)) "
		"SELECT p.last, e.job_id FROM (SELECT CASE WHEN count(*) = $2 THEN max(job_id) ELSE 0 END "
		"AS last FROM looked) p LEFT JOIN ended e ON true",
		arguments));
	*last = DatumGetInt64(spi_value(0, 1, INT8OID));
	bool none = false;
	for (int i = 0; i < n; i++)
		jobs[i] = DatumGetInt64(spi_value(i, 2, INT8OID, &none));
	SPI_finish();
	return none ? 0 : n;
}

void
delete_checkpoints(const int64 *jobs, int n)
{
	auto *ids = static_cast<Datum *>(palloc(n * sizeof(Datum)));
	for (int i = 0; i < n; i++)
		ids[i] = Int64GetDatum(jobs[i]);
	ArrayType *array =
		construct_array(ids, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	const SpiArgument arguments[] = {{INT8ARRAYOID, PointerGetDatum(array), false}};
	spi_begin();
	(void) spi_execute("DELETE FROM pgq_ext.job_checkpoint WHERE (job_id, step) IN "
					   "(SELECT job_id, step FROM pgq_ext.job_checkpoint WHERE job_id = ANY($1) "
					   "AND kept_at < clock_timestamp() - interval '5 min' FOR UPDATE SKIP LOCKED)",
					   arguments);
	SPI_finish();
}

} // namespace pgq
