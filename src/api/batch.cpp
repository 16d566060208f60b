/*
 * pgq_create_batch, pgq_close_batch and pgq_cancel_batch.
 */
#include "batches/batch.h"
#include "api/args.h"
#include "batches/cancel.h"

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_create_batch);
PG_FUNCTION_INFO_V1(pgq_close_batch);
PG_FUNCTION_INFO_V1(pgq_cancel_batch);

PGDLLEXPORT Datum
pgq_create_batch(PG_FUNCTION_ARGS)
{
	start_write("pgq_create_batch()");
	BatchSpec spec{};
	for (int i = 0; i < kBatchEvents; i++)
		if (given(fcinfo, i))
			spec.callbacks[i] = PG_GETARG_JSONB_P(i);
	if (given(fcinfo, kBatchEvents))
		spec.metadata = PG_GETARG_JSONB_P(kBatchEvents);
	PG_RETURN_INT64(create_batch(spec));
}

PGDLLEXPORT Datum
pgq_close_batch(PG_FUNCTION_ARGS)
{
	start_write("pgq_close_batch()");
	close_batch(DatumGetInt64(required(fcinfo, 0, "batch")));
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_cancel_batch(PG_FUNCTION_ARGS)
{
	start_write("pgq_cancel_batch()");
	PG_RETURN_INT64(cancel_batch(DatumGetInt64(required(fcinfo, 0, "batch"))));
}
}
