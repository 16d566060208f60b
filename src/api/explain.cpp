/*
 * pgq_explain. SQL builds the text of the explanation (src/schema/32_explain.sql). This file
 * decides which rows the caller may see, since that SQL runs with the owner's rights and does not
 * know the caller.
 */
#include "api/args.h"
#include "api/result_rows.h"
#include "catalog/owner_sql.h"
#include "catalog/rights.h"

namespace pgq {

namespace {
/* Attributes of pgq_ext.explanation, in order. */
enum class ExplanationColumn
{
	kStep,
	kDetail,
	kColumns
};

} // namespace

static constexpr Column explanation_columns[] = {{"step", kText}, {"detail", kText}};
static_assert(lengthof(explanation_columns) == static_cast<int>(ExplanationColumn::kColumns));

namespace {

struct Explained
{
	bool has_queue;
	int32 queue_id;
	char *step;
	char *detail;
};

} // namespace

static Explained
read_explained(int i)
{
	Explained explained{};
	bool is_null;
	explained.queue_id = DatumGetInt32(spi_value(i, 1, INT4OID, &is_null));
	explained.has_queue = !is_null;
	explained.step = TextDatumGetCString(spi_value(i, 2, TEXTOID));
	explained.detail = TextDatumGetCString(spi_value(i, 3, TEXTOID));
	return explained;
}

/*
 * Run a query about the job that returns queue_id, step and detail. *n: number of rows. The result
 * is in the caller's memory context.
 */
static Explained *
explain_by(const char *sql, int64 job_id, int *n)
{
	const SpiArgument id[] = {{INT8OID, Int64GetDatum(job_id), false}};
	MemoryContext caller = CurrentMemoryContext;
	Explained *explained = nullptr;
	as_owner([&] {
		*n = static_cast<int>(spi_execute(sql, id));
		MemoryContext spi = MemoryContextSwitchTo(caller);
		explained = static_cast<Explained *>(palloc((*n + 1) * sizeof(Explained)));
		for (int i = 0; i < *n; i++)
			explained[i] = read_explained(i);
		MemoryContextSwitchTo(spi);
	});
	return explained;
}

/* Add the rows about queues that the caller may see, and return the number of rows added. */
static int
put_explained(ResultRows *rows, const Explained *explained, int n)
{
	int put = 0;
	for (int i = 0; i < n; i++)
		if (!explained[i].has_queue || may_see(explained[i].queue_id))
		{
			ResultRow<ExplanationColumn> row;
			row.set(ExplanationColumn::kStep, explained[i].step);
			row.set(ExplanationColumn::kDetail, explained[i].detail);
			rows->put(row);
			put++;
		}
	return put;
}

static int
explain_to(ResultRows *rows, const char *sql, int64 job_id)
{
	int n;
	const Explained *explained = explain_by(sql, job_id, &n);
	return put_explained(rows, explained, n);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_explain);

PGDLLEXPORT Datum
pgq_explain(PG_FUNCTION_ARGS)
{
	start_verb("pgq_explain()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	ResultRows rows(fcinfo, "explanation", explanation_columns);
	if (explain_to(&rows, "SELECT e.queue_id, e.step, e.detail FROM pgq_ext.explain_job($1) e",
				   job_id) == 0)
		(void) explain_to(&rows,
						  "SELECT NULL::pg_catalog.int4, e.step, e.detail "
						  "FROM pgq_ext.explain_absence($1) e",
						  job_id);
	return (Datum) 0;
}
}
