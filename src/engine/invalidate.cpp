#include "engine/invalidate.h"

#include "engine/hold.h"
#include "engine/registry.h"

namespace pgq {

/*
 * The clock of a failed primary may have been ahead of the clock of this server by up to this time
 * (microseconds). begin_clock_mark() allows for it, since the durable mark may be older than the
 * last enqueues on that primary.
 */
static constexpr int64 kClockSlack = 5 * 60 * USECS_PER_SEC;

void
begin_clock_mark(Database *db, TimestampTz durable)
{
	pg_atomic_write_u64(&db->clock_mark, Max(durable, wall_now() + kClockSlack));
}

void
raise_clock_mark(Database *db, TimestampTz run_at)
{
	uint64 mark = pg_atomic_read_u64(&db->clock_mark);
	/* Raise the mark by kClockSlack more than needed, so that it is raised rarely. */
	while (run_at > static_cast<TimestampTz>(mark) &&
		   !pg_atomic_compare_exchange_u64(&db->clock_mark, &mark, run_at + kClockSlack))
		;
}

TimestampTz
clock_mark(const Queue *queue)
{
	return static_cast<TimestampTz>(pg_atomic_read_u64(&queue->database->clock_mark));
}

static void
read_again(const QueueRef &ref)
{
	(void) change_queue(ref, [](QueueHold &hold) {
		hold.read_all(PG_INT64_MAX);
		forget_count(hold->count);
		hold.wake_scheduler();
	});
}

void
invalidate_queue(Oid database, Oid incarnation, int32 queue_id)
{
	QueueRef ref;
	const Database *db = find_database(database, incarnation);
	if (db != nullptr && find_attached_queue(db, queue_id, &ref))
		read_again(ref);
}

void
invalidate_all(Oid database)
{
	for_each_queue(nullptr, [&](const QueueRef &ref) {
		if (ref.queue->database->oid == database)
			read_again(ref);
	});
}

void
forget_counts(Oid database)
{
	for_each_queue(nullptr, [&](const QueueRef &ref) {
		if (ref.queue->database->oid == database)
			(void) change_queue(ref, [](QueueHold &hold) {
				forget_count(hold->count);
				hold.wake_scheduler();
			});
	});
}

void
note_deletions(Oid database)
{
	for_each_queue(nullptr, [&](const QueueRef &ref) {
		if (ref.queue->database->oid == database)
			(void) change_queue(ref, [](QueueHold &hold) {
				/*
				 * Read all rows: after the deletion of a group's first job, the next job of the
				 * group may be handed out.
				 */
				if (hold->options.fifo)
					hold.read_from(Key::lowest(), TimerKey::highest());
			});
	});
}

} // namespace pgq
