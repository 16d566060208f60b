#include "ring/rotation.h"

#include "catalog/subscription.h"
#include "catalog/tables.h"
#include "pg/clip.h"
#include "pg/scope.h"
#include "pg/stop_point.h"
#include "ring/expiry.h"
#include "ring/move.h"
#include "ring/records.h"
#include "ring/segment.h"
#include "ring/snapshots.h"
#include "ring/survey.h"
#include "ring/truncate.h"

namespace pgq {

constinit int segment_size = 64 * 1024;
static constinit int segment_dead_rows = 500;

void
rotation_init()
{
	DefineCustomIntVariable(
		"pgq_ext.segment_size", "Size at which a segment of pgq_ext.job is closed.",
		"Heap, TOAST and indexes together. Greater when most segments are in use.", &segment_size,
		64 * 1024, 64, MAX_KILOBYTES, PGC_SIGHUP, GUC_UNIT_KB, nullptr, nullptr, nullptr);
	DefineCustomIntVariable("pgq_ext.segment_dead_rows",
							"Dead rows for which a segment is closed in which little else is.",
							"0: none are reason enough, only its size.", &segment_dead_rows, 500, 0,
							INT_MAX, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
	DefineCustomBoolVariable(
		"pgq_ext.rotation_waits_for_snapshots",
		"No segment is truncated while any snapshot may see a row that was in it.",
		"For those who read pgq_ext.job in long transactions.", &rotation_waits_for_snapshots,
		false, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
}

/* ---- errors for the view ---- */

/* Store the error of the segment's last step; an empty message clears the error. */
static void
note_error(Database *database, int number, const char *message)
{
	SegmentStatus *notes = &database->segments[number];
	char error[sizeof(notes->error)];
	copy_clipped(error, message);
	if (strcmp(notes->error, error) != 0)
		with_lwlock(shared->registry_lock, LW_EXCLUSIVE,
					[&] { memcpy(notes->error, error, sizeof(error)); });
}

/* Run body. If body raises an error, note the error for the segment and raise the error again. */
template <typename Body>
static void
noting_error(Database *database, int number, Body body)
{
	MemoryContext context = CurrentMemoryContext;
	PG_TRY();
	{
		body();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		ErrorData *error = CopyErrorData();
		note_error(database, number, error->message != nullptr ? error->message : "?");
		FreeErrorData(error);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* ---- looking at a ring ---- */

/*
 * Set new_files to 0 if every snapshot is newer than the first TRUNCATE that was counted. Then no
 * snapshot keeps the dead rows that this TRUNCATE has left in pg_class. A snapshot may still keep
 * the dead rows of later TRUNCATEs.
 */
static void
look_at_horizon(Rotation *rotation)
{
	if (rotation->new_files == 0)
		return;
	Relation pg_class = table_open(RelationRelationId, AccessShareLock);
	TransactionId horizon = GetOldestNonRemovableTransactionId(pg_class);
	table_close(pg_class, AccessShareLock);
	if (TransactionIdPrecedes(rotation->horizon, horizon))
		rotation->new_files = 0;
}

static void
note_new_files(Rotation *rotation)
{
	if (rotation->new_files++ == 0)
		rotation->horizon = ReadNextTransactionId();
}

static RingView
look_at_ring(Rotation *rotation, Database *database, RingName name)
{
	const Tables &t = look_at_tables();
	look_at_horizon(rotation);
	RingView ring = {};
	ring.name = name;
	ring.current = t.current(name).number;
	ring.survivors = pg_atomic_read_u32(&database->rings[name].survivors);
	ring.least = static_cast<int64>(segment_size) * 1024 * size_factor(rotation->new_files);
	for (const Segment &segment : t.segments(name))
	{
		bool current = static_cast<uint32>(segment.number) == ring.current;
		ring.bare[segment.number] = !current && is_bare(segment);
		ring.bare_count += ring.bare[segment.number];
		if (ring.bare[segment.number])
			continue;
		ring.bytes[segment.number] = segment_bytes(segment);
		if (!current)
			ring.closed_bytes += ring.bytes[segment.number];
	}
	return ring;
}

/*
 * Return whether the current segment should be closed early because rows in it are past their time:
 * the segment may not become full for years. A sample of a few pages (other pages at each call)
 * must contain rows past their time. Unless the segment is small, at most half of the rows in the
 * sample may be rows that are still kept, since these have to be moved out. At least half of the
 * ring must be bare. No segment is closed early while many TRUNCATEs with new files have left dead
 * rows in pg_class (size_factor()).
 */
static bool
is_over(Rotation *rotation, const RingView &ring)
{
	const Segment &current = look_at_tables().get(static_cast<int>(ring.current));
	if (!is_truncated_by_time(ring.name) || !is_half_bare(ring) ||
		size_factor(rotation->new_files) > 1)
		return false;
	Sample sample = sample_segment(read_expiry(ring.name, rotation->clock), current,
								   &rotation->next_page[ring.name]);
	return sample.past > 0 && (sample.kept <= sample.past || table_bytes(current) <= kSmallSegment);
}

static bool
is_worn(const SegmentPass &pass)
{
	return segment_dead_rows > 0 && is_worn(pass, segment_dead_rows);
}

/*
 * Return whether the current segment should be closed before it is full, because it has many dead
 * rows and few live rows, and may not become full for a long time. Each call reads a few further
 * pages of the segment; the call that ends the pass decides. At least half of the ring must be
 * bare. A ring that is truncated by time is left to is_over().
 */
static bool
is_current_worn(Rotation *rotation, const RingView &ring)
{
	if (segment_dead_rows == 0 || is_truncated_by_time(ring.name) || !is_half_bare(ring))
		return false;
	const Segment &current = look_at_tables().get(static_cast<int>(ring.current));
	SegmentPass *pass = &rotation->of_current[ring.name];
	int64 few = Min(few_bytes(ring.name, table_bytes(current)), kSmallMove);
	survey_segment(current, nullptr, few, pass);
	if (!pass->many && !pass->at_end)
		return false;
	bool worn = is_worn(*pass);
	int64 *dead_before = &rotation->dead_before[ring.name];
	if (!pass->many && wears_fast(pass->dead, *dead_before, segment_dead_rows))
		rotation->next_look = Min(rotation->next_look, monotonic_now() + kRingOften);
	*dead_before = worn ? 0 : pass->dead;
	*pass = {};
	return worn;
}

static void
look_after_current(Rotation *rotation, Database *database, const RingView &ring)
{
	bool fast = fills_fast(ring, rotation->bytes_before[ring.name]);
	if (fast)
		rotation->next_look = monotonic_now() + kRingSoon;
	rotation->bytes_before[ring.name] = ring.bytes[ring.current];
	if (!is_full(ring, ring.current) && !is_over(rotation, ring) &&
		(fast || !is_current_worn(rotation, ring)))
		return;
	/*
	 * Enqueues will wait for locks of the new segment, so choose a segment that no session has
	 * locked.
	 */
	uint32 next = next_bare(ring, [](uint32 number) {
		return lock_for_writing(look_at_tables().get(static_cast<int>(number)));
	});
	if (next == kNoSegment)
		return;
	pg_atomic_write_u32(&database->rings[ring.name].current, next);
	rotation->of_current[ring.name] = {};
}

static void
watch_closed(Rotation *rotation, Database *database, const RingView &ring, int64 now)
{
	const Tables &t = look_at_tables();
	for (const Segment &segment : t.segments(ring.name))
	{
		uint32 number = segment.number;
		SegmentWatch *watch = &rotation->watches[number];
		if (ring.bare[number] || number == ring.current)
		{
			*watch = {};
			pg_atomic_write_u64(&database->segments[number].empty_since, 0);
			note_error(database, segment.number, "");
			if (ring.bare[number])
				clear_statistics(segment);
			/*
			 * If the segment of survivors has become bare or the current segment, the ring has no
			 * segment of survivors from now on.
			 */
			if (number == ring.survivors)
				pg_atomic_write_u32(&database->rings[ring.name].survivors, kNoSegment);
		}
		else if (watch->phase == SegmentWatch::kIdle)
			watch->close(now,
						 is_truncated_by_time(ring.name) ? kMostPatienceByTime : kMostPatience);
	}
}

bool
begin_look(Rotation *rotation, int64 now, TimestampTz clock)
{
	rotation->clock = clock;
	if (now < rotation->next_look)
		return false;
	rotation->next_look = now + kRingInterval;
	return true;
}

void
look_at_rings(Rotation *rotation, Database *database, int64 now)
{
	for (RingName name : all_rings)
	{
		look_after_current(rotation, database, look_at_ring(rotation, database, name));
		watch_closed(rotation, database, look_at_ring(rotation, database, name), now);
	}
}

/* ---- a step with a closed segment ---- */

static void
read_on(Rotation *rotation, Database *database, const Segment &segment, SegmentWatch *watch)
{
	RingName name = ring_of(segment.number);
	survey_segment(segment, read_expiry(name, rotation->clock),
				   few_bytes(name, table_bytes(segment)), &watch->pass);
	watch->note_reading(monotonic_now(), [&] {
		return !is_worn(watch->pass) &&
			   takes_survivors(look_at_ring(rotation, database, name), segment.number);
	});
}

/* Return the segment to which rows of `from` are moved. */
static const Segment &
find_refuge(Rotation *rotation, Database *database, const Segment &from)
{
	RingView ring = look_at_ring(rotation, database, ring_of(from.number));
	uint32 to = refuge_from(ring, from.number);
	if (to != ring.survivors)
		pg_atomic_write_u32(&database->rings[ring.name].survivors,
							to == ring.current ? kNoSegment : to);
	return look_at_tables().get(static_cast<int>(to));
}

static void
drain(Rotation *rotation, Database *database, const Segment &from, SegmentWatch *watch)
{
	const Segment &to = find_refuge(rotation, database, from);
	stop_point("rotation-drain");
	if (!lock_for_writing(from) || !lock_for_writing(to) || is_subscribed())
	{
		watch->due = monotonic_now() + kRingInterval;
		return;
	}
	watch->begin_batch();
	int moved = 0;
	bool at_end =
		ring_of(from.number) == kJobRing
			? move_jobs(from, to, &watch->move_from, watch->batch, &moved)
			: move_records(from, to, rotation->clock, &watch->move_from, watch->batch, &moved);
	watch->note_batch(monotonic_now(), moved, at_end);
	pg_atomic_fetch_add_u64(&database->segments[from.number].moved_out, moved);
	pg_atomic_fetch_add_u64(&database->segments[to.number].moved_in, moved);
}

static bool
held_by_snapshot(const SegmentStatus &notes)
{
	auto empty_since = static_cast<TimestampTz>(
		pg_atomic_read_u64(const_cast<pg_atomic_uint64 *>(&notes.empty_since)));
	int next = 1;
	SnapshotHolder holder;
	return next_snapshot_holder(empty_since, &next, &holder);
}

/*
 * Steps: if the segment was found without rows before, check that no snapshot blocks the TRUNCATE;
 * check that the segment still has no row, which locks writers out until the transaction ends; note
 * since when the segment has no row; check again that no snapshot blocks the TRUNCATE; truncate the
 * segment, if the locks can be had at once. The order matters.
 */
static void
try_truncate(Rotation *rotation, SegmentStatus *notes, const Segment &segment, SegmentWatch *watch)
{
	watch->due = monotonic_now() + kRingInterval;
	bool known_empty = pg_atomic_read_u64(&notes->empty_since) != 0;
	if (known_empty && held_by_snapshot(*notes))
		return;

	stop_point("rotation-considered");
	XLogRecPtr changed_at = watch->changed_at;
	TransactionId newest;
	const Expiry *expiry = read_expiry(ring_of(segment.number), rotation->clock);
	Remains remains = inspect_segment(segment, expiry, &changed_at, &newest);
	if (remains == Remains::kSome)
	{
		pg_atomic_write_u64(&notes->empty_since, 0);
		watch->note_rows();
	}
	if (remains != Remains::kNone)
		return;
	if (!known_empty || changed_at != watch->changed_at)
	{
		/* A snapshot taken after this moment sees no row of the segment. */
		pg_atomic_write_u64(&notes->empty_since, latest_beginning());
		watch->changed_at = changed_at;
		/*
		 * Look again soon: nearly always some session is in the middle of a statement, and its
		 * snapshot is older than this moment.
		 */
		watch->due = monotonic_now() + kRingSoon;
	}
	if (held_by_snapshot(*notes) ||
		(rotation_waits_for_snapshots && !is_seen_by_all(segment, newest)))
		return;
	TruncatedBy how = truncate_segment(segment, expiry != nullptr);
	if (how == TruncatedBy::kNothing)
	{
		watch->note_lock(monotonic_now());
		return;
	}
	*watch = {};
	pg_atomic_fetch_add_u64(&notes->truncations, 1);
	pg_atomic_write_u64(&notes->empty_since, 0);
	if (how == TruncatedBy::kNewFiles)
		note_new_files(rotation);
	else
		commit_lazily();
}

int
segment_in_turn(const Rotation &rotation, int64 now)
{
	return segment_in_turn(rotation.watches, now);
}

void
take_step(Rotation *rotation, Database *database, int number)
{
	const Segment *segment = look_at_tables().find(number);
	if (segment == nullptr)
		return;
	SegmentWatch *watch = &rotation->watches[number];
	bool reading = watch->phase == SegmentWatch::kReading;
	noting_error(database, number, [&] {
		switch (watch->phase)
		{
			case SegmentWatch::kIdle:
				break;
			case SegmentWatch::kReading:
				read_on(rotation, database, *segment, watch);
				break;
			case SegmentWatch::kDraining:
				/*
				 * Commit without waiting for WAL: a move that is lost in a crash has simply not
				 * taken place.
				 */
				commit_lazily();
				drain(rotation, database, *segment, watch);
				break;
			case SegmentWatch::kEmpty:
				try_truncate(rotation, &database->segments[number], *segment, watch);
				break;
		}
	});
	/*
	 * A step that only reads does not clear the noted error: an earlier step, which changes the
	 * segment, has noted it.
	 */
	if (!reading && !watch->failed)
		note_error(database, number, "");
}

void
end_step(Rotation *rotation, Database *database, int number, bool tried, bool raised)
{
	SegmentWatch *watch = &rotation->watches[number];
	int64 now = monotonic_now();
	if (raised)
		watch->note_error(now);
	else
		watch->note_success(now, tried);
	if (raised && !watch->failing)
		note_error(database, number, "");
}

int64
next_step(const Rotation &rotation)
{
	return next_turn(rotation.watches, rotation.next_look);
}

bool
is_failing(const Rotation &rotation)
{
	bool failing = false;
	for (const SegmentWatch &watch : rotation.watches)
		failing |= watch.failing;
	return failing;
}

} // namespace pgq
