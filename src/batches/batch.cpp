#include "batches/batch.h"

#include "catalog/owner_sql.h"
#include "catalog/queue_row.h"
#include "catalog/rights.h"
#include "enqueue/job_json.h"
#include "enqueue/member.h"
#include "load/attach.h"
#include "pg/clock.h"
#include "rows/batch_row.h"
#include "rows/deleted_member.h"
#include "txn/effects.h"

namespace pgq {

static SpiArgument
json_argument(const Jsonb *json)
{
	return {JSONBOID, PointerGetDatum(json), json == nullptr};
}

/* Raise the errors that enqueuing the callback would raise. */
static void
check_callback(const Jsonb *callback, const char *name)
{
	TimestampTz now = wall_now();
	char *queue;
	JobSpec spec = job_of_callback(callback, name, &queue);
	QueueRef ref = resolve_queue(tables(), queue, Permission::kEnqueue);
	(void) job_of(ref.queue_id, spec, now);
}

int64
create_batch(const BatchSpec &spec)
{
	require_batch_columns();
	for (int i = 0; i < kCallbacks; i++)
		if (spec.callbacks[i] != nullptr)
			check_callback(spec.callbacks[i], callback_names[i]);
	/*
	 * A failover may lose the last ids, which are then given out again. The random bits keep a
	 * client that has noted a lost id from adding to a batch of somebody else.
	 */
	uint16 random;
	if (!pg_strong_random(&random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate a random number")));
	const SpiArgument arguments[] = {
		{INT8OID, Int64GetDatum(random), false},
		{OIDOID, ObjectIdGetDatum(GetUserId()), false},
		{TEXTOID, CStringGetTextDatum(GetUserNameFromId(GetUserId(), false)), false},
		json_argument(spec.callbacks[0]),
		json_argument(spec.callbacks[1]),
		json_argument(spec.callbacks[2]),
		json_argument(spec.metadata)};
	int64 batch_id = 0;
	as_owner([&] {
		with_deed(Deed::kBatch, [&] {
			(void) spi_execute(
				"INSERT INTO pgq_ext.job_batch (batch_id, restored, maker, maker_name, "
				"on_success, on_failure, on_finish, metadata) "
				"SELECT pg_catalog.nextval('pgq_ext.batch_id_seq') * 65536 + $1, false, $2, "
				"$3, $4, $5, $6, $7 RETURNING batch_id",
				arguments);
		});
		batch_id = DatumGetInt64(spi_value(0, 1, INT8OID));
	});
	CommandCounterIncrement();
	return batch_id;
}

void
close_batch(int64 batch_id)
{
	(void) require_batch(batch_id);
	const SpiArgument arguments[] = {{INT8OID, Int64GetDatum(batch_id), false}};
	as_owner([&] {
		with_deed(Deed::kBatch, [&] {
			(void) spi_execute(
				"UPDATE pgq_ext.job_batch SET closed_at = pg_catalog.clock_timestamp() "
				"WHERE batch_id OPERATOR(pg_catalog.=) $1 AND closed_at IS NULL",
				arguments);
		});
	});
	CommandCounterIncrement();
	tell_batch_at_commit(batch_id, BatchNews::kChange, 0);
}

void
find_batch_makers()
{
	as_owner([] { spi_run("UPDATE pgq_ext.job_batch SET maker = NULL, restored = true"); });
	tell_all_batches_at_commit();
}

} // namespace pgq
