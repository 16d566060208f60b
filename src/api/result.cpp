/*
 * pgq_result.
 */
#include "jobs/result.h"
#include "api/args.h"
#include "api/result_rows.h"

namespace pgq {

namespace {
/* Attributes of pgq_ext.job_result, in order. */
enum class ResultColumn
{
	kJobId,
	kState,
	kResult,
	kError,
	kColumns
};

} // namespace

static constexpr Column result_columns[] = {
	{"job_id", kInt8}, {"state", kText}, {"result", kJsonb}, {"error", kText}};
static_assert(lengthof(result_columns) == static_cast<int>(ResultColumn::kColumns));

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_result);

PGDLLEXPORT Datum
pgq_result(PG_FUNCTION_ARGS)
{
	using enum ResultColumn;
	start_verb("pgq_result()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	int64 wait = given(fcinfo, 1) ? duration(PG_GETARG_DATUM(1), "wait", kWaitMax) : 0;
	ResultRows rows(fcinfo, "job_result", result_columns);
	JobResult result;
	if (!result_of(job_id, wait, &result))
		return (Datum) 0;
	ResultRow<ResultColumn> row;
	row.set(kJobId, job_id);
	row.set(kState, result.state);
	if (result.has_result)
		row.set_datum(kResult, result.result);
	if (result.has_error)
		row.set_datum(kError, result.error);
	rows.put(row);
	return (Datum) 0;
}
}
