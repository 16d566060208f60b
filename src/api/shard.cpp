/*
 * pgq_set_shard.
 */
#include "api/args.h"
#include "catalog/owner_sql.h"
#include "load/attach.h"

namespace pgq {

/*
 * Return whether any job or record exists. After a change of the shard number, clients would look
 * for the id of such a job in the database of another shard.
 */
static bool
has_jobs()
{
	static constexpr char kAnyJob[] =
		"SELECT WHERE EXISTS (SELECT FROM pgq_ext.job) OR EXISTS (SELECT FROM pgq_ext.dead_job) "
		"OR EXISTS (SELECT FROM pgq_ext.finished_job) OR EXISTS (SELECT FROM pgq_ext.attempt) "
		"OR EXISTS (SELECT FROM pgq_ext.unique_key)";
	return spi_execute(kAnyJob, nullptr, 0) > 0;
}

static void
refuse_jobs_of(bool had, int32 before, int32 shard)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					had ? errmsg("this database has jobs with ids of shard %d", before)
						: errmsg("this database has jobs whose ids have no shard number"),
					errdetail("Clients that have such an id would look for its job in another "
							  "database. Records of jobs that have ended count as well."),
					errhint("Call pgq_set_shard before the first job is enqueued. For shard %d use "
							"a new database.",
							shard)));
}

/*
 * Refuse a shard number in a database with the extension pgmq of this project, which depends on
 * pgq_ext. Ids with a shard number grow so fast that they would meet the job ids of messages.
 */
static void
refuse_pgmq()
{
	static constexpr char kIsThere[] =
		"SELECT FROM pg_depend d JOIN pg_extension m ON m.oid = d.objid "
		"JOIN pg_extension p ON p.oid = d.refobjid "
		"WHERE d.classid = 'pg_extension'::regclass AND d.refclassid = 'pg_extension'::regclass "
		"AND m.extname = 'pgmq' AND p.extname = 'pgq_ext'";
	if (spi_execute(kIsThere, nullptr, 0) > 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("a database with the extension pgmq cannot have a shard number"),
						errdetail("Both use the upper bits of job ids."),
						errhint("Use a database without that extension, or drop it before.")));
}

/*
 * Set the shard number of this database. The locks allow one call at a time, and no session draws a
 * job id while the row of pgq_ext.shard is being changed: see schema/45_shard.sql.
 */
static void
set_shard(int32 shard)
{
	const SpiArgument number[] = {{INT4OID, Int32GetDatum(shard), false}};
	spi_run("LOCK TABLE pgq_ext.shard IN SHARE ROW EXCLUSIVE MODE");
	bool had = spi_execute("SELECT shard FROM pgq_ext.shard", nullptr, 0) > 0;
	int32 before = had ? DatumGetInt32(spi_value(0, 1, INT4OID)) : 0;
	spi_execute("INSERT INTO pgq_ext.shard (shard) VALUES ($1) "
				"ON CONFLICT (only_row) DO UPDATE SET shard = EXCLUDED.shard",
				number);
	if (had && before == shard)
		return;
	if (has_jobs())
		refuse_jobs_of(had, before, shard);
	refuse_pgmq();
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_set_shard);

PGDLLEXPORT Datum
pgq_set_shard(PG_FUNCTION_ARGS)
{
	static constexpr int kMost = 1023;
	start_write("pgq_set_shard()");
	int32 shard = DatumGetInt32(required(fcinfo, 0, "shard"));
	if (shard < 0 || shard > kMost)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("shard %d is out of range", shard),
						errdetail("Shards are numbered from 0 to %d.", kMost)));
	if (IsolationUsesXactSnapshot())
		ereport(
			ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("pgq_set_shard must be called in a READ COMMITTED transaction"),
			 errdetail(
				 "At another isolation level it would not see the jobs that are being enqueued.")));
	(void) tables();
	as_owner([&] { set_shard(shard); });
	CommandCounterIncrement();
	PG_RETURN_VOID();
}
}
