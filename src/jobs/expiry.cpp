#include "jobs/expiry.h"

#include "catalog/owner_sql.h"
#include "engine/hold.h"
#include "jobs/end_row.h"
#include "load/attach.h"
#include "txn/effects.h"

namespace pgq {

/* The rows are read by the index of those that expire, whatever the statistics say. For the rest of the transaction. */
static void
set_options()
{
	static const struct
	{
		const char *name;
		const char *value;
	} options[] = {
		/* All locks that are known of are held; what else there may be ends in an error soon. */
		{"lock_timeout", "1s"},
		{"enable_seqscan", "off"},
		{"enable_bitmapscan", "off"},
		{"enable_sort", "off"},
	};
	for (const auto &option : options)
		(void) set_config_option(option.name, option.value, PGC_SUSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
}

/* Their ids; their rows are locked from here on. */
static int
lock_overdue(TimestampTz then, int most, int64 *ids)
{
	const SpiArgument arguments[] = {{TIMESTAMPTZOID, TimestampTzGetDatum(then), false},
									 {INT4OID, Int32GetDatum(most), false}};
	int n = 0;
	require_is_leased();
	as_owner([&] {
		n = static_cast<int>(spi_execute(
			"SELECT job_id FROM pgq_ext.job WHERE expires_at OPERATOR(pg_catalog.<=) $1 "
			"AND NOT pgq_ext.is_leased(job_id) ORDER BY expires_at LIMIT $2 "
			"FOR UPDATE SKIP LOCKED",
			arguments));
		bool is_null;
		for (int i = 0; i < n; i++)
			ids[i] = DatumGetInt64(spi_value(i, 1, &is_null));
	});
	return n;
}

/* Of a queue that is attached, and nobody has just taken it. */
static bool
expire_job(SegmentSet &segments, int64 job_id, TimestampTz then)
{
	JobRow row;
	QueueRef ref;
	Lease *lease;
	VirtualTransactionId other;
	if (locate_job(segments, Place{}, job_id, false, &row) != WriteResult::kDone ||
		!row.expired(then) || !find_attached_queue(tables().database, row.queue_id(), &ref) ||
		take_lease_to_end(ref, row.hint(), LeaseEnd::kExpired, &lease, &other) !=
			TakeResult::kTaken)
		return false;
	bool keeps = false;
	(void) look_at_queue(ref, [&](const Queue &queue) { keeps = keeps_finished(queue.options); });
	const Finish finish = {nullptr, nullptr};
	/* Its row is locked by ourselves: there is nobody to wait for, and who would not wait is told of our own lock. */
	bool done = end_row(segments, row.place, job_id, RowEnd::kExpired, nullptr, true,
						keeps ? &finish : nullptr) == WriteResult::kDone;
	if (!done)
		set_end(lease, LeaseEnd::kChanged);
	return done;
}

int
expire_jobs(TimestampTz then, int most)
{
	auto *ids = static_cast<int64 *>(palloc(most * sizeof(int64)));
	set_options();
	int n = lock_overdue(then, most, ids);
	int expired = 0;
	SegmentSet segments(RowExclusiveLock);
	for (int i = 0; i < n; i++)
		expired += expire_job(segments, ids[i], then);
	segments.close();
	pfree(ids);
	return expired;
}

} // namespace pgq
