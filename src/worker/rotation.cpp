#include "worker/rotation.h"

#include "pg/scope.h"
#include "store/segment.h"
#include "store/spi.h"
#include "store/tables.h"

namespace pgq {

constinit int segment_size = 64 * 1024;
constinit bool rotation_waits_for_snapshots = false;

void
rotation_init()
{
	DefineCustomIntVariable(
		"pgq_ext.segment_size", "Size at which a segment of pgq_ext.job is closed.",
		"Heap, TOAST and indexes together. Greater when most segments are in use.", &segment_size,
		64 * 1024, 64, MAX_KILOBYTES, PGC_SIGHUP, GUC_UNIT_KB, nullptr, nullptr, nullptr);
	DefineCustomBoolVariable(
		"pgq_ext.rotation_waits_for_snapshots",
		"No segment is truncated while any snapshot may see a row that was in it.",
		"For those who read pgq_ext.job in long transactions.", &rotation_waits_for_snapshots,
		false, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
}

static constexpr int64 kInterval = USECS_PER_SEC;
static constexpr int64 kLongestPatience = 32 * kInterval;
static constexpr int64 kAfterError = 60 * kInterval;
static constexpr int kReadAtOnce = 4096;
static constexpr int kMoveAtOnce = 64;

/* What this scheduler has found out about a closed segment. */
struct Watched
{
	enum Phase : uint8
	{
		kIdle, /* not closed */
		kReading,
		kDraining,
		kEmpty,
	} phase;
	SegmentPass pass;
	int64 move_from;	 /* job id */
	int moved;			 /* in this drain */
	TransactionId since; /* EMPTY: transactions from here on have had nothing to do with it */
	int64 due;			 /* monotonic */
	int64 patience;
};

static constinit Database *database = nullptr;
static constinit Watched watched[kMaxSegments] = {};
static constinit int64 next_look = 0;

static SegmentNotes &
notes_of(const Segment &segment)
{
	return database->segments[segment.number];
}

static void
start_reading(Watched *w, int64 from, int64 due)
{
	w->phase = Watched::kReading;
	w->pass = {.next_id = from, .first_live = 0, .live_bytes = 0, .many = false, .at_end = false};
	w->due = due;
}

/* ---- the current segment ---- */

/*
 * While the oldest snapshot stays the same each TRUNCATE leaves some dead rows in pg_class
 * that every backend has to step over: after each 64 of them segments are twice as large.
 */
static constinit TransactionId horizon_mark = InvalidTransactionId;
static constinit int truncated_since_mark = 0;

static int
catalog_factor()
{
	static constexpr int kMany = 64;
	static constexpr int kMostDoublings = 6;
	if (truncated_since_mark == 0)
		return 1;
	Relation pg_class = table_open(RelationRelationId, AccessShareLock);
	TransactionId horizon = GetOldestNonRemovableTransactionId(pg_class);
	table_close(pg_class, AccessShareLock);
	if (TransactionIdPrecedes(horizon_mark, horizon))
	{
		truncated_since_mark = 0;
		return 1;
	}
	return 1 << Min(truncated_since_mark / kMany, kMostDoublings);
}

static void
note_truncation()
{
	if (truncated_since_mark++ == 0)
		horizon_mark = ReadNextTransactionId();
}

struct Ring
{
	uint32 current;
	uint32 survivors;
	bool bare[kMaxSegments]; /* by number; the current one is never counted as bare */
	int bare_count;
	int64 bytes[kMaxSegments];
	int64 closed_bytes;
};

static Ring
look_at_ring()
{
	const Tables &t = tables();
	Ring ring = {};
	ring.current = current_segment().number;
	ring.survivors = pg_atomic_read_u32(&database->survivors_segment);
	for (int i = 0; i < t.segments; i++)
	{
		const Segment &segment = t.segment[i];
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

/* A backlog must not use up the ring, nor make segments so large that what is finished in them is more than what waits. */
static int64
full_size(const Ring &ring)
{
	int64 least = static_cast<int64>(segment_size) * 1024 * catalog_factor();
	return ring.bare_count == 0 ? least : Max(least, 2 * ring.closed_bytes / ring.bare_count);
}

/* The next bare one in the ring; kNoSegment: none. */
static uint32
bare_after(const Ring &ring, uint32 number)
{
	for (uint32 i = 1; i < kMaxSegments; i++)
		if (ring.bare[(number + i) % kMaxSegments])
			return (number + i) % kMaxSegments;
	return kNoSegment;
}

static void
look_after_current(const Ring &ring)
{
	uint32 next = bare_after(ring, ring.current);
	if (next != kNoSegment && ring.bytes[ring.current] >= full_size(ring))
		pg_atomic_write_u32(&database->current_segment, next);
}

static void
watch_closed(const Ring &ring, int64 now)
{
	const Tables &t = tables();
	uint32 current = current_segment().number;
	for (int i = 0; i < t.segments; i++)
	{
		uint32 number = t.segment[i].number;
		Watched *w = &watched[number];
		if (ring.bare[number] || number == current)
		{
			*w = {};
			pg_atomic_write_u64(&notes_of(t.segment[i]).empty_since, 0);
			if (ring.bare[number] && number == ring.survivors)
				pg_atomic_write_u32(&database->survivors_segment, kNoSegment);
		}
		else if (w->phase == Watched::kIdle)
		{
			w->patience = kInterval;
			start_reading(w, 0, now);
		}
	}
}

/* ---- a closed segment's turn ---- */

static void
read_on(const Segment &segment, Watched *w)
{
	read_segment(segment, &w->pass, kReadAtOnce);
	int64 now = monotonic_now();
	if (w->pass.many)
	{
		/* Jobs are finished from the front, mostly. */
		w->patience = Min(2 * w->patience, kLongestPatience);
		start_reading(w, w->pass.first_live, now + w->patience);
	}
	else if (!w->pass.at_end)
		w->due = now;
	else if (w->pass.first_live != 0)
	{
		w->phase = Watched::kDraining;
		w->move_from = w->pass.first_live;
		w->moved = 0;
	}
	else
	{
		w->phase = Watched::kEmpty;
		w->since = ReadNextTransactionId();
		pg_atomic_write_u64(&notes_of(segment).empty_since, GetCurrentTimestamp());
	}
}

/* Where rows of that segment go to. */
static const Segment &
refuge(const Segment &from)
{
	Ring ring = look_at_ring();
	bool usable = ring.survivors != kNoSegment &&
				  ring.survivors != static_cast<uint32>(from.number) &&
				  ring.bytes[ring.survivors] < full_size(ring);
	uint32 to = ring.survivors;
	if (!usable)
	{
		/* The last bare one is for new rows. */
		to = ring.bare_count > 1 ? bare_after(ring, ring.current) : ring.current;
		pg_atomic_write_u32(&database->survivors_segment, to == ring.current ? kNoSegment : to);
	}
	return *segment_by_number(static_cast<int>(to));
}

static void
drain(const Segment &from, Watched *w)
{
	const Segment &to = refuge(from);
	int moved = 0;
	bool survived = survives([&] { moved = move_rows(from, to, &w->move_from, kMoveAtOnce); });
	if (!survived)
	{
		start_reading(w, 0, monotonic_now() + kAfterError);
		return;
	}
	w->moved += moved;
	pg_atomic_fetch_add_u64(&notes_of(from).moved_out, moved);
	pg_atomic_fetch_add_u64(&notes_of(to).moved_in, moved);
	if (w->move_from != 0)
		return;
	/* What somebody has in hand is left: look again, sooner or later as it goes. */
	w->patience = w->moved > 0 ? kInterval : Min(2 * w->patience, kLongestPatience);
	start_reading(w, w->pass.first_live, monotonic_now() + w->patience);
}

static bool
held_by_snapshot(const Segment &segment)
{
	const SpiArgument number[] = {{INT4OID, Int32GetDatum(segment.number), false}};
	/* Not as the owner: only a superuser sees what others do. */
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	bool held = spi_execute("SELECT 1 FROM pgq_ext.rotation_blocker WHERE segment "
							"OPERATOR(pg_catalog.=) $1 AND kind OPERATOR(pg_catalog.=) 'snapshot'",
							number) > 0;
	SPI_finish();
	return held;
}

static void
try_truncate(const Segment &segment, Watched *w)
{
	Truncation result = Truncation::kLocked;
	w->due = monotonic_now() + kInterval;
	if (held_by_snapshot(segment))
		return;
	if (!survives([&] { result = truncate_segment(segment, w->since); }))
	{
		w->due = monotonic_now() + kAfterError;
		return;
	}
	switch (result)
	{
		case Truncation::kDone:
			pg_atomic_fetch_add_u64(&notes_of(segment).truncations, 1);
			pg_atomic_write_u64(&notes_of(segment).empty_since, 0);
			note_truncation();
			break;
		case Truncation::kLocked:
			break;
		case Truncation::kInhabited:
			pg_atomic_write_u64(&notes_of(segment).empty_since, 0);
			start_reading(w, 0, w->due);
			break;
		case Truncation::kTouched:
			w->since = ReadNextTransactionId();
			pg_atomic_write_u64(&notes_of(segment).empty_since, GetCurrentTimestamp());
			break;
	}
}

/* False: the locks could not be had. */
static bool
take_step(int number)
{
	Watched *w = &watched[number];
	bool served = false;
	with_transaction([&] {
		served =
			lock_and_serve(w->phase == Watched::kDraining ? RowExclusiveLock : AccessShareLock);
		const Segment *segment = segment_by_number(number);
		if (!served || segment == nullptr)
			return;
		if (w->phase == Watched::kReading)
			read_on(*segment, w);
		else if (w->phase == Watched::kDraining)
		{
			/* Lost in a crash, a move has not taken place. */
			(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
									 GUC_ACTION_LOCAL, true, 0, false);
			drain(*segment, w);
		}
		else
			try_truncate(*segment, w);
	});
	return served;
}

int64
rotate_segments(Database *of_this_database)
{
	database = of_this_database;
	int64 now = monotonic_now();
	if (now >= next_look)
	{
		next_look = now + kInterval;
		with_transaction([&] {
			if (!lock_and_serve(AccessShareLock))
				return;
			look_after_current(look_at_ring());
			watch_closed(look_at_ring(), now);
		});
	}

	int64 next = next_look;
	int first = -1;
	for (int i = 0; i < kMaxSegments; i++)
		if (watched[i].phase != Watched::kIdle &&
			(first < 0 || watched[i].due < watched[first].due))
			first = i;
	if (first >= 0 && watched[first].due <= now && !take_step(first))
		watched[first].due = now + kInterval;
	for (const Watched &w : watched)
		if (w.phase != Watched::kIdle)
			next = Min(next, w.due);
	return next;
}

} // namespace pgq
