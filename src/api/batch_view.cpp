/*
 * Functions behind the view batch, and behind the column "batch" of other views.
 */
#include "api/args.h"
#include "catalog/owner_sql.h"
#include "catalog/reader.h"
#include "catalog/rights.h"
#include "engine/hold.h"
#include "engine/lease.h"
#include "load/attach.h"

namespace pgq {

/* ---- the batch of a row ---- */

/* Return the number of the column batch_id, or 0: a table of version 0.1 does not have it. */
static int
batch_column(TupleDesc row)
{
	for (int i = 0; i < row->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(row, i);
		if (!column->attisdropped && column->atttypid == INT8OID &&
			strcmp(NameStr(column->attname), "batch_id") == 0)
			return i + 1;
	}
	return 0;
}

/* Return column batch_id of a row of any table; *is_null: the row has no batch. */
static Datum
batch_in_row(HeapTupleHeader row, bool *is_null)
{
	TupleDesc desc =
		lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(row), HeapTupleHeaderGetTypMod(row));
	int column = batch_column(desc);
	ReleaseTupleDesc(desc);
	*is_null = true;
	return column == 0 ? Datum{} : GetAttributeByNum(row, static_cast<AttrNumber>(column), is_null);
}

/* ---- members ---- */

/* Return whether job_status shows the state "leased" for the job. */
static bool
is_in_work(int64 job_id)
{
	bool in_work = false;
	(void) look_at_lease(tables().database, job_id, [&](const Lease &lease) {
		in_work = lease.state == LeaseState::kClaimed ||
				  (lease.state == LeaseState::kClaiming && !is_moving(&lease) && lease.uses == 0);
	});
	return in_work;
}

namespace {

/* The attributes of the type pgq_ext.member_counts. */
constexpr Column count_columns[] = {
	{"live", kInt8},	  {"in_work", kInt8}, {"dead", kInt8},	  {"added", kInt8},
	{"cancelled", kInt8}, {"expired", kInt8}, {"deleted", kInt8},
};
constexpr int kCountColumns = lengthof(count_columns);

struct MemberCounts
{
	int64 columns[kCountColumns];
};

} // namespace

/*
 * Sum up the notes by kind; Note in rows/batch_note.h has the numbers. A member that becomes a dead
 * letter has not ended, so its death is not counted here. The deletion of the dead letter ends the
 * member.
 */
#define PGQ_SUM_NOTES                                                              \
	"(SELECT pg_catalog.sum(t.n) FILTER (WHERE t.what OPERATOR(pg_catalog.=) 1), " \
	"pg_catalog.sum(t.n) FILTER (WHERE t.what OPERATOR(pg_catalog.=) 3), "         \
	"pg_catalog.sum(t.n) FILTER (WHERE t.what OPERATOR(pg_catalog.=) 4), "         \
	"pg_catalog.sum(t.n) FILTER (WHERE t.what OPERATOR(pg_catalog.>=) 5) "         \
	"FROM pgq_ext.batch_note t WHERE t.batch_id OPERATOR(pg_catalog.=) $1) "       \
	"n (added, cancelled, expired, deleted)"
#define PGQ_NOTES                                                                        \
	"COALESCE(n.added, 0)::pg_catalog.int8, COALESCE(n.cancelled, 0)::pg_catalog.int8, " \
	"COALESCE(n.expired, 0)::pg_catalog.int8, COALESCE(n.deleted, 0)::pg_catalog.int8"

/*
 * The statements that count members, indexed by Tables::has_batches. Each one is a single
 * statement, so that all numbers are of one snapshot.
 */
static const char *const count_members_sql[] = {
	"SELECT 0::pg_catalog.int8, 0::pg_catalog.int8, 0::pg_catalog.int8, " PGQ_NOTES
	" FROM " PGQ_SUM_NOTES,
	"SELECT m.live, m.in_work, d.dead, " PGQ_NOTES " FROM (SELECT pg_catalog.count(*), "
	"pg_catalog.count(*) FILTER (WHERE pgq_ext.is_in_work(j.job_id)) "
	"FROM pgq_ext.job j WHERE j.batch_id OPERATOR(pg_catalog.=) $1) m (live, in_work), "
	"(SELECT pg_catalog.count(*) FROM pgq_ext.dead_job d "
	"WHERE d.batch_id OPERATOR(pg_catalog.=) $1) d (dead), " PGQ_SUM_NOTES,
};

/*
 * Like as_owner(), for statements that only read. Unlike as_owner(), this function leaves
 * session_replication_role unchanged: a change would make the server forget all plans of the
 * session.
 */
template <typename Body>
static void
read_as_owner(Body body)
{
	with_rights_of(common_owner(), [&] {
		if (SPI_connect() != SPI_OK_CONNECT)
			elog(ERROR, "SPI_connect failed");
		body();
		SPI_finish();
	});
}

/*
 * Run a statement about the batch with the snapshot of the caller's query, and return the number of
 * rows. *plan: the plan of the session. It is kept, because planning takes longer than counting.
 */
static uint64
ask_about(SPIPlanPtr *plan, const char *sql, int64 batch_id)
{
	find_by_index();
	if (*plan == nullptr)
	{
		Oid types[] = {INT8OID};
		SPIPlanPtr prepared = SPI_prepare_cursor(sql, 1, types, CURSOR_OPT_GENERIC_PLAN);
		if (prepared == nullptr)
			elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
		if (SPI_keepplan(prepared) != 0)
			elog(ERROR, "SPI_keepplan failed");
		*plan = prepared;
	}
	Datum values[] = {Int64GetDatum(batch_id)};
	int result = SPI_execute_plan(*plan, values, nullptr, true, 0);
	if (result != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
	return SPI_processed;
}

/*
 * Return whether the view batch shows the batch to the current role. The view has the same
 * condition. This function also guards the functions of the view when a role calls them directly.
 */
static bool
may_see_batch(Oid reader, bool reads_all, int64 batch_id)
{
	static constinit SPIPlanPtr plan = nullptr;
	bool is_null;
	if (ask_about(&plan,
				  "SELECT b.maker FROM pgq_ext.job_batch b "
				  "WHERE b.batch_id OPERATOR(pg_catalog.=) $1",
				  batch_id) == 0)
		return false;
	Oid maker = DatumGetObjectId(spi_value(0, 1, OIDOID, &is_null));
	return reads_all || (!is_null && has_privs_of_role(reader, maker));
}

/* Return false if there is no such batch, or the current role may not see it. */
static bool
count_members(int64 batch_id, MemberCounts *counts)
{
	static constinit SPIPlanPtr plans[2] = {};
	bool has_batches = look_at_tables().has_batches;
	Oid reader = GetUserId();
	bool reads_all = is_owner() || has_privs_of_role(reader, ROLE_PG_MONITOR);
	bool seen = false;
	read_as_owner([&] {
		seen = may_see_batch(reader, reads_all, batch_id);
		if (!seen)
			return;
		(void) ask_about(&plans[has_batches], count_members_sql[has_batches], batch_id);
		for (int i = 0; i < kCountColumns; i++)
			counts->columns[i] = DatumGetInt64(spi_value(0, i + 1, INT8OID));
	});
	return seen;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_batch_of);
PG_FUNCTION_INFO_V1(pgq_is_in_work);
PG_FUNCTION_INFO_V1(pgq_members_of);

/* Internal function: returns the batch of a row of pgq_ext.job or dead_job. Works on a standby. */
PGDLLEXPORT Datum
pgq_batch_of(PG_FUNCTION_ARGS)
{
	require_preloaded();
	bool is_null = true;
	Datum batch = given(fcinfo, 0) ? batch_in_row(PG_GETARG_HEAPTUPLEHEADER(0), &is_null) : Datum{};
	if (is_null)
		PG_RETURN_NULL();
	return batch;
}

/* Internal function: returns whether a worker or a claim has the job. */
PGDLLEXPORT Datum
pgq_is_in_work(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.is_in_work()");
	PG_RETURN_BOOL(is_in_work(DatumGetInt64(required(fcinfo, 0, "job_id"))));
}

/* Internal function: counts the members of a batch. */
PGDLLEXPORT Datum
pgq_members_of(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.members_of()");
	require_reader(fcinfo, {"batch"});
	(void) tables();
	MemberCounts counts;
	if (!given(fcinfo, 0) || !count_members(PG_GETARG_INT64(0), &counts))
		PG_RETURN_NULL();
	TupleDesc desc;
	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "the result of pgq_ext.members_of() is no row");
	check_row_type(desc, "member_counts", count_columns, kCountColumns);
	auto *values = static_cast<Datum *>(palloc0(desc->natts * sizeof(Datum)));
	auto *nulls = static_cast<bool *>(palloc(desc->natts * sizeof(bool)));
	memset(nulls, true, desc->natts * sizeof(bool));
	for (int i = 0; i < kCountColumns; i++)
	{
		values[i] = Int64GetDatum(counts.columns[i]);
		nulls[i] = false;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}
}
