#include "batches/retention.h"

#include "catalog/owner_sql.h"

namespace pgq {

static constinit int keep_batches = 0; /* seconds */

void
batches_init()
{
	static constexpr int kDefault = 7 * SECS_PER_DAY;
	DefineCustomIntVariable(
		"pgq_ext.keep_batches", "How long batches are kept after they have finished.", nullptr,
		&keep_batches, kDefault, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
}

/*
 * Find batches that are not pending and finished before `until`, and lock their rows. *found, *n_found:
 * those without jobs and dead letters. OFFSET keeps the planner from reading all members, for a hash
 * table. Returns the number of batches whose rows were locked.
 */
static int
find_settled(TimestampTz *from, TimestampTz until, int most, Datum *found, int *n_found)
{
	const SpiArgument arguments[] = {{TIMESTAMPTZOID, TimestampTzGetDatum(*from), false},
									 {TIMESTAMPTZOID, TimestampTzGetDatum(until), false},
									 {INT4OID, Int32GetDatum(most), false}};
	int n = static_cast<int>(spi_execute(
		"SELECT b.batch_id, b.finished_at, NOT EXISTS (SELECT FROM pgq_ext.job j "
		"WHERE j.batch_id OPERATOR(pg_catalog.=) b.batch_id OFFSET 0) AND NOT EXISTS (SELECT FROM "
		"pgq_ext.dead_job d WHERE d.batch_id OPERATOR(pg_catalog.=) b.batch_id OFFSET 0) "
		"FROM pgq_ext.job_batch b WHERE NOT b.pending "
		"AND b.finished_at OPERATOR(pg_catalog.>) $1 "
		"AND b.finished_at OPERATOR(pg_catalog.<=) $2 ORDER BY b.finished_at LIMIT $3 "
		"FOR UPDATE OF b SKIP LOCKED",
		arguments));
	*n_found = 0;
	for (int i = 0; i < n; i++)
		if (DatumGetBool(spi_value(i, 3, BOOLOID)))
			found[(*n_found)++] = spi_value(i, 1, INT8OID);
	if (n > 0)
		*from = DatumGetTimestampTz(spi_value(n - 1, 2, TIMESTAMPTZOID));
	return n;
}

/* Delete the notes first, at most `most`: a batch may have very many. Returns false if some are left. */
static bool
delete_batches(Datum *ids, int n, int most)
{
	ArrayType *array =
		construct_array(ids, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	const SpiArgument notes[] = {{INT8ARRAYOID, PointerGetDatum(array), false},
								 {INT4OID, Int32GetDatum(most), false}};
	int deleted = static_cast<int>(spi_execute(
		"DELETE FROM pgq_ext.batch_note WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY("
		"SELECT n.ctid FROM pgq_ext.batch_note n WHERE n.batch_id OPERATOR(pg_catalog.=) ANY ($1) "
		"LIMIT $2))",
		notes));
	if (deleted == most)
		return false;
	const SpiArgument batches[] = {{INT8ARRAYOID, PointerGetDatum(array), false}};
	(void) spi_execute(
		"DELETE FROM pgq_ext.job_batch WHERE batch_id OPERATOR(pg_catalog.=) ANY ($1)", batches);
	return true;
}

bool
delete_settled_batches(TimestampTz *from, TimestampTz now)
{
	static constexpr int kBatchesAtOnce = 64;
	static constexpr int kNotesAtOnce = 10000;
	Datum ids[kBatchesAtOnce];
	TimestampTz next = *from;
	bool more = false;
	as_owner([&] {
		int n;
		int looked_at =
			find_settled(&next, now - keep_batches * USECS_PER_SEC, kBatchesAtOnce, ids, &n);
		more = looked_at == kBatchesAtOnce;
		if (!more)
			next = DT_NOBEGIN;
		/* If notes are left, the next call begins at the same batches. */
		if (n > 0 && !delete_batches(ids, n, kNotesAtOnce))
		{
			more = true;
			next = *from;
		}
	});
	*from = next;
	return more;
}

} // namespace pgq
