/*
 * Duty: delete dead letters and other records that their queue keeps no longer (keep_dead,
 * keep_finished, keep_attempts), key periods (unique_for) that are over, and settled batches. For a minute after a
 * start of the server, or after the clock was set, the duty does nothing (core/steady_clock.h). The
 * space of deleted rows is freed when their segment is truncated.
 */
#include "batches/retention.h"
#include "core/ring_policy.h"
#include "ring/records.h"
#include "rows/key_period.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

static constexpr int kAtOnce = 64; /* few records, since payloads can be large */

static constexpr int kPeriodsAtOnce = 1000;

/* Delete settled batches. Returns whether there may be more of them. */
static bool
expire_batches(TimestampTz *from, TimestampTz now)
{
	const Tables &t = look_at_tables();
	/* Version 0.1 has no such tables. */
	return OidIsValid(t.job_batch()) && OidIsValid(t.batch_note()) && t.has_batches &&
		   ConditionalLockRelationOid(t.job_batch(), RowExclusiveLock) &&
		   ConditionalLockRelationOid(t.batch_note(), RowExclusiveLock) &&
		   delete_settled_batches(from, now);
}

/*
 * Delete some records, key periods and batches. If a segment cannot be read, go on with the other
 * segments. Return whether there may be more to delete.
 */
static bool
expire_all(SchedulerState &scheduler, TimestampTz now)
{
	bool more = false;
	int expired = 0;
	int periods = 0;
	bool short_of_resources = false;
	for (const Segment &segment : look_at_tables().all_segments())
		if (expired < kAtOnce && !short_of_resources && OidIsValid(segment.heap))
			(void) survives([&] { expired += expire_records(segment, now, kAtOnce - expired); },
							&short_of_resources);
	if (!short_of_resources)
		(void) survives([&] { periods = end_key_periods(now, kPeriodsAtOnce); },
						&short_of_resources);
	if (!short_of_resources)
		(void) survives([&] { more = expire_batches(&scheduler.batches_kept_from, now); },
						&short_of_resources);
	if (short_of_resources)
		rest_after_this();
	return more || expired == kAtOnce || periods == kPeriodsAtOnce;
}

int64
retain(SchedulerState &scheduler)
{
	int64 began = monotonic_now();
	TimestampTz wall = wall_now();
	if (!scheduler.database->clock.trusted(wall, began))
		return scheduler.database->clock.trusted_from();
	bool more = false;
	(void) serving_transaction(AccessShareLock, [&] { more = expire_all(scheduler, wall); });
	int64 now = monotonic_now();
	return now + rest_after_expiry(now - began, more);
}

} // namespace pgq
