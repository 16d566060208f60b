/*
 * first_jobs(), which lists the jobs of a queue page by page, for programs that show jobs. Each page
 * reads only its own rows.
 */
#include "api/args.h"
#include "api/result_rows.h"
#include "catalog/owner_sql.h"
#include "catalog/reader.h"
#include "catalog/rights.h"

namespace pgq {

namespace {

enum class PageColumn
{
	kJobId,
	kPriority,
	kRunAt,
	kEnqueuedAt,
	kAttempts,
	kGroupKey,
	kUniqueKey,
	kLastError,
	kColumns
};

/* The job after which the page begins. */
struct PagePlace
{
	int32 priority;
	TimestampTz run_at;
	int64 job_id;
};

} // namespace

static constexpr Oid page_types[] = {INT8OID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID,
									 INT4OID, TEXTOID, TEXTOID,		   TEXTOID};
static_assert(lengthof(page_types) == static_cast<int>(PageColumn::kColumns));

/* Return the place in arguments 2 to 4; the place before all jobs if they are NULL. */
static PagePlace
page_place(FunctionCallInfo fcinfo)
{
	if (!given(fcinfo, 2) && !given(fcinfo, 3) && !given(fcinfo, 4))
		return {PG_INT32_MAX, DT_NOBEGIN, 0};
	return {DatumGetInt32(required(fcinfo, 2, "after_priority")),
			DatumGetTimestampTz(required(fcinfo, 3, "after_run_at")),
			DatumGetInt64(required(fcinfo, 4, "after_job_id"))};
}

/*
 * Read the page with the rights of the owner. Each of the two parts of the query reads one range of
 * the index by queue, priority, run_at and id.
 */
static void
put_page(ResultRows *rows, int32 queue_id, const PagePlace &place, int32 most)
{
#define PGQ_PAGE_OF                                                                               \
	"(SELECT job_id, priority, run_at, enqueued_at, attempts, group_key, unique_key, last_error " \
	"FROM pgq_ext.job WHERE queue_id = $1 AND "
	constexpr const char *sql = PGQ_PAGE_OF
		"priority = $2 AND (run_at, job_id) > ($3, $4) ORDER BY run_at, job_id LIMIT $5) "
		"UNION ALL " PGQ_PAGE_OF
		"priority < $2 ORDER BY priority DESC, run_at, job_id LIMIT $5) LIMIT $5";
#undef PGQ_PAGE_OF
	const SpiArgument arguments[] = {{INT4OID, Int32GetDatum(queue_id), false},
									 {INT4OID, Int32GetDatum(place.priority), false},
									 {TIMESTAMPTZOID, TimestampTzGetDatum(place.run_at), false},
									 {INT8OID, Int64GetDatum(place.job_id), false},
									 {INT8OID, Int64GetDatum(most), false}};
	/* Read the rows, and add each of them to the result. */
	as_owner([&] {
		int n = static_cast<int>(spi_execute(sql, arguments));
		for (int i = 0; i < n; i++)
		{
			ResultRow<PageColumn> row;
			for (int column = 0; column < static_cast<int>(PageColumn::kColumns); column++)
			{
				bool is_null;
				Datum value = spi_value(i, column + 1, page_types[column], &is_null);
				if (!is_null)
					row.set_datum(static_cast<PageColumn>(column), value);
			}
			rows->put(row);
		}
	});
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_first_jobs);

PGDLLEXPORT Datum
pgq_first_jobs(PG_FUNCTION_ARGS)
{
	static constexpr int32 kMost = 10000;
	start_verb("pgq_ext.first_jobs()");
	require_reader(fcinfo, {"job_status"});
	int32 queue_id = DatumGetInt32(required(fcinfo, 0, "queue_id"));
	int32 most = DatumGetInt32(required(fcinfo, 1, "most"));
	PagePlace place = page_place(fcinfo);
	if (most < 1 || most > kMost)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("most must be between 1 and %d", kMost)));
	ResultRows rows(fcinfo);
	if (may_see(queue_id))
		put_page(&rows, queue_id, place, most);
	return (Datum) 0;
}
}
