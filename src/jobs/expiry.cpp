#include "jobs/expiry.h"

#include "catalog/owner_sql.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "steps/end_row.h"
#include "txn/effects.h"

namespace pgq {

int
lock_overdue(const Segment &segment, TimestampTz then, int most, Sweep *sweep, int64 *ids)
{
	const SpiArgument arguments[] = {
		{TIMESTAMPTZOID, TimestampTzGetDatum(then), false},
		{INT4OID, Int32GetDatum(most), false},
		{TIMESTAMPTZOID, TimestampTzGetDatum(sweep->expires_at), false},
		{INT8OID, Int64GetDatum(sweep->job_id), false}};
	const char *sql = psprintf(
		"SELECT job_id, expires_at FROM ONLY pgq_ext.%s "
		"WHERE expires_at OPERATOR(pg_catalog.<=) $1 "
		"AND expires_at OPERATOR(pg_catalog.>=) $3 AND (expires_at OPERATOR(pg_catalog.>) $3 "
		"OR job_id OPERATOR(pg_catalog.>) $4) AND NOT pgq_ext.is_leased(job_id) "
		"ORDER BY expires_at, job_id LIMIT $2 FOR UPDATE SKIP LOCKED",
		quote_identifier(get_rel_name(segment.heap)));
	int n = 0;
	/* Find and lock the rows. */
	require_is_leased();
	read_few_rows();
	as_owner([&] {
		n = static_cast<int>(spi_execute(sql, arguments));
		/* Store the ids of the jobs, and the position at which the next call continues. */
		for (int i = 0; i < n; i++)
			ids[i] = DatumGetInt64(spi_value(i, 1, INT8OID));
		*sweep = {};
		if (n == most)
			*sweep = {DatumGetTimestampTz(spi_value(n - 1, 2, TIMESTAMPTZOID)), ids[n - 1]};
	});
	return n;
}

bool
expire_job(int64 job_id, TimestampTz then)
{
	JobRow row;
	QueueRef ref;
	Lease *lease;
	VirtualTransactionId other;
	bool done = false;
	SegmentSet segments(RowExclusiveLock);
	if (locate_job(segments, Place{}, job_id, false, &row) == WriteResult::kDone &&
		row.expired(then) && find_attached_queue(tables().database, row.queue_id(), &ref) &&
		take_lease_to_end(ref, row.hint(), LeaseEnd::kExpired, &lease, &other) ==
			TakeResult::kTaken)
	{
		done = end_locked_row(segments, ref, row, RowEnd::kExpired);
		if (!done)
			set_end(lease, LeaseEnd::kChanged);
	}
	segments.close();
	return done;
}

} // namespace pgq
