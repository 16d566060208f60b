#include "rows/batch_row.h"

#include "catalog/owner_sql.h"

namespace pgq {

bool
find_batch(int64 batch_id, BatchRow *batch)
{
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(batch_id), false}};
	bool found = false;
	as_owner([&] {
		find_by_index();
		found = spi_execute("SELECT maker, closed_at IS NOT NULL, finished_at IS NOT NULL "
							"FROM pgq_ext.job_batch WHERE batch_id OPERATOR(pg_catalog.=) $1",
							arguments) > 0;
		if (!found)
			return;
		bool is_null;
		Datum maker = spi_value(0, 1, OIDOID, &is_null);
		batch->maker = is_null ? InvalidOid : DatumGetObjectId(maker);
		batch->closed = DatumGetBool(spi_value(0, 2, BOOLOID));
		batch->finished = DatumGetBool(spi_value(0, 3, BOOLOID));
	});
	return found;
}

void
add_note(int64 batch_id, Note what, int64 n)
{
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(batch_id), false},
									 {INT2OID, Int16GetDatum(static_cast<int16>(what)), false},
									 {INT8OID, Int64GetDatum(n), false}};
	as_owner([&] {
		(void) spi_execute("INSERT INTO pgq_ext.batch_note (batch_id, what, n) VALUES ($1, $2, $3)",
						   arguments);
	});
}

} // namespace pgq
