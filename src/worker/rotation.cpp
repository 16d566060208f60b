#include "worker/rotation.h"

#include "pg/scope.h"
#include "pg/stop_point.h"
#include "ring/move.h"
#include "ring/records.h"
#include "ring/segment.h"
#include "ring/snapshots.h"
#include "ring/survey.h"
#include "ring/truncate.h"
#include "catalog/tables.h"
#include "worker/duty.h"
#include "worker/worker.h"

namespace pgq {

constinit int segment_size = 64 * 1024;

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
static constexpr int64 kSoon = kInterval / 10; /* where a segment fills in a few seconds */
static constexpr int64 kLongestPatience = 32 * kInterval;
static constexpr int64 kAfterError = 60 * kInterval;
static constexpr BlockNumber kReadAtOnce = 256;
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
	int64 live_before; /* bytes, in the pass before this one; 0: it was another */
	Position move_from;
	int batch;			   /* rows moved in a transaction */
	int moved;			   /* in this drain */
	bool failed;		   /* some row could not be moved */
	XLogRecPtr changed_at; /* EMPTY: no page was changed since */
	bool failing;		   /* the last step that did something has raised */
	int64 due;			   /* monotonic */
	int64 patience;
};

static constinit Database *database = nullptr;
static constinit Watched watched[kAllSegments] = {};
static constinit int64 next_look = 0;

static SegmentNotes &
notes_of(const Segment &segment)
{
	return database->segments[segment.number];
}

/* For held_by of the view segment; "" when it is over. */
static void
note_error(int number, const char *message)
{
	char *error = database->segments[number].error;
	if (strcmp(error, message) != 0)
		with_lwlock(shared->registry_lock, LW_EXCLUSIVE,
					[&] { strlcpy(error, message, sizeof(SegmentNotes::error)); });
}

/* Run body; what it raises is noted and raised again. */
template <typename Body>
static void
noting_error(int number, Body body)
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
		note_error(number, error->message != nullptr ? error->message : "?");
		FreeErrorData(error);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static void
start_reading(Watched *w, BlockNumber from, int64 due)
{
	w->phase = Watched::kReading;
	w->pass = {.next = from,
			   .first_live = InvalidBlockNumber,
			   .live_bytes = 0,
			   .many = false,
			   .at_end = false};
	w->due = due;
}

static void
be_patient(Watched *w)
{
	w->patience = Min(2 * w->patience, kLongestPatience);
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
	RingName name;
	uint32 current;
	uint32 survivors;
	bool bare[kAllSegments]; /* by number; the current one is never counted as bare */
	int bare_count;
	int64 bytes[kAllSegments];
	int64 closed_bytes;
};

static Ring
look_at_ring(RingName name)
{
	const Tables &t = tables();
	Ring ring = {};
	ring.name = name;
	ring.current = current_segment(name).number;
	ring.survivors = pg_atomic_read_u32(&database->rings[name].survivors);
	for (int i = 0; i < t.all_segments; i++)
	{
		const Segment &segment = t.segment[i];
		if (ring_of(segment.number) != name)
			continue;
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

/* The first bare one behind the current one that is good for something; kNoSegment: none. */
template <typename Good>
static uint32
next_bare(const Ring &ring, Good good)
{
	uint32 first = first_in(ring.name);
	uint32 n = segments_in(ring.name);
	for (uint32 i = 1; i < n; i++)
	{
		uint32 number = first + (ring.current - first + i) % n;
		if (ring.bare[number] && good(*segment_by_number(static_cast<int>(number))))
			return number;
	}
	return kNoSegment;
}

static void
look_after_current(const Ring &ring)
{
	static constinit int64 bytes_before[kRings] = {};
	static constexpr int64 kSlowly = 16;
	int64 grown = ring.bytes[ring.current] - bytes_before[ring.name];
	bytes_before[ring.name] = ring.bytes[ring.current];
	if (grown > full_size(ring) / kSlowly)
		next_look = monotonic_now() + kSoon;
	if (ring.bytes[ring.current] < full_size(ring))
		return;
	/* Everybody who enqueues would stand behind whoever has locked the new one. */
	uint32 next = next_bare(ring, lock_for_writing);
	if (next != kNoSegment)
		pg_atomic_write_u32(&database->rings[ring.name].current, next);
}

static void
watch_closed(const Ring &ring, int64 now)
{
	const Tables &t = tables();
	for (int i = 0; i < t.all_segments; i++)
	{
		uint32 number = t.segment[i].number;
		if (ring_of(t.segment[i].number) != ring.name)
			continue;
		Watched *w = &watched[number];
		if (ring.bare[number] || number == ring.current)
		{
			*w = {};
			pg_atomic_write_u64(&notes_of(t.segment[i]).empty_since, 0);
			note_error(t.segment[i].number, "");
			/* Nothing could be moved there, so it has become the current one perhaps. */
			if (number == ring.survivors)
				pg_atomic_write_u32(&database->rings[ring.name].survivors, kNoSegment);
		}
		else if (w->phase == Watched::kIdle)
		{
			w->patience = kInterval;
			start_reading(w, 0, now);
		}
	}
}

/* ---- a closed segment's turn ---- */

/* Not closed at all: it is where other segments' rows go to. */
static bool
takes_survivors(const Segment &segment)
{
	Ring ring = look_at_ring(ring_of(segment.number));
	return ring.survivors == static_cast<uint32>(segment.number) &&
		   ring.bytes[segment.number] < full_size(ring);
}

/* Few rows are left. If they get fewer fast they need not be copied. */
static void
consider_draining(const Segment &segment, Watched *w, int64 now)
{
	if (takes_survivors(segment))
	{
		be_patient(w);
		start_reading(w, w->pass.first_live, now + w->patience);
		return;
	}
	bool dwindling = w->live_before == 0 || 2 * w->pass.live_bytes < w->live_before;
	w->live_before = w->pass.live_bytes;
	if (dwindling)
	{
		start_reading(w, w->pass.first_live, now + kInterval);
		return;
	}
	w->phase = Watched::kDraining;
	w->move_from = {w->pass.first_live, FirstOffsetNumber};
	w->batch = kMoveAtOnce;
	w->moved = 0;
	w->failed = false;
}

static void
read_on(const Segment &segment, Watched *w)
{
	survey_segment(segment, &w->pass, kReadAtOnce);
	int64 now = monotonic_now();
	if (w->pass.many)
	{
		/* Jobs are finished from the front, mostly. */
		be_patient(w);
		w->live_before = 0;
		start_reading(w, w->pass.first_live, now + w->patience);
	}
	else if (!w->pass.at_end)
		w->due = now;
	else if (w->pass.first_live != InvalidBlockNumber)
		consider_draining(segment, w, now);
	else
	{
		w->phase = Watched::kEmpty;
		w->changed_at = InvalidXLogRecPtr;
	}
}

/* Where rows of that segment go to. */
static const Segment &
refuge(const Segment &from)
{
	Ring ring = look_at_ring(ring_of(from.number));
	bool usable = ring.survivors != kNoSegment &&
				  ring.survivors != static_cast<uint32>(from.number) &&
				  ring.bytes[ring.survivors] < full_size(ring);
	uint32 to = ring.survivors;
	if (!usable)
	{
		/* The last bare one is for new rows. */
		to = ring.bare_count > 1 ? next_bare(ring, [](const Segment &) { return true; })
								 : ring.current;
		pg_atomic_write_u32(&database->rings[ring.name].survivors,
							to == ring.current ? kNoSegment : to);
	}
	return *segment_by_number(static_cast<int>(to));
}

static void
drain(const Segment &from, Watched *w)
{
	const Segment &to = refuge(from);
	Position began_at = w->move_from;
	bool at_end = false;
	int moved = 0;
	if (!lock_for_writing(from) || !lock_for_writing(to))
	{
		w->due = monotonic_now() + kInterval;
		return;
	}
	if (!survives([&] {
			noting_error(from.number, [&] {
				at_end = ring_of(from.number) == kJobRing
							 ? move_jobs(from, to, &w->move_from, w->batch, &moved)
							 : move_dead_jobs(from, to, &w->move_from, w->batch, &moved);
			});
		}))
	{
		/* Then one by one, without the one that cannot be moved; later, if not even that can be told. */
		w->failed |= w->batch == 1;
		w->failing |= w->failed;
		at_end = w->batch == 1 && w->move_from.block == began_at.block &&
				 w->move_from.offset == began_at.offset;
		if (w->batch > 1)
			w->move_from = began_at;
		w->batch = 1;
		moved = 0;
	}
	w->moved += moved;
	pg_atomic_fetch_add_u64(&notes_of(from).moved_out, moved);
	pg_atomic_fetch_add_u64(&notes_of(to).moved_in, moved);
	if (!at_end)
		return;
	/* What somebody has in hand is left: look again, sooner or later as it goes. */
	if (w->moved > 0)
		w->patience = kInterval;
	else
		be_patient(w);
	start_reading(w, w->pass.first_live, monotonic_now() + (w->failed ? kAfterError : w->patience));
}

static bool
held_by_snapshot(const Segment &segment)
{
	auto empty_since = static_cast<TimestampTz>(pg_atomic_read_u64(&notes_of(segment).empty_since));
	int next = 1;
	SnapshotHolder holder;
	return next_snapshot_holder(empty_since, &next, &holder);
}

static void
try_truncate(const Segment &segment, Watched *w)
{
	SegmentNotes &notes = notes_of(segment);
	bool known_empty = pg_atomic_read_u64(&notes.empty_since) != 0;
	if (known_empty && held_by_snapshot(segment))
		return;

	stop_point("rotation-considered");
	XLogRecPtr changed_at = w->changed_at;
	TransactionId newest;
	Remains remains = inspect_segment(segment, &changed_at, &newest);
	if (remains == Remains::kSome)
	{
		pg_atomic_write_u64(&notes.empty_since, 0);
		start_reading(w, 0, w->due);
	}
	if (remains != Remains::kNone)
		return;
	if (!known_empty || changed_at != w->changed_at)
	{
		/* Snapshots that are taken from now on see no row of it. */
		pg_atomic_write_u64(&notes.empty_since, latest_beginning());
		w->changed_at = changed_at;
	}
	if (held_by_snapshot(segment) ||
		(rotation_waits_for_snapshots && !is_seen_by_all(segment, newest)))
		return;
	if (!truncate_segment(segment))
	{
		/* A lock that a dump holds for hours is not worth looking at the segment again each second. */
		be_patient(w);
		w->due = monotonic_now() + w->patience;
		return;
	}
	pg_atomic_fetch_add_u64(&notes.truncations, 1);
	pg_atomic_write_u64(&notes.empty_since, 0);
	note_truncation();
}

static void
take_step(const Segment &segment, Watched *w)
{
	bool reading = w->phase == Watched::kReading;
	switch (w->phase)
	{
		case Watched::kIdle:
			break;
		case Watched::kReading:
			read_on(segment, w);
			break;
		case Watched::kDraining:
			/* Lost in a crash, a move has not taken place. */
			commit_lazily();
			drain(segment, w);
			break;
		case Watched::kEmpty:
			w->due = monotonic_now() + kInterval;
			try_truncate(segment, w);
			break;
	}
	/* To read is not what had failed. */
	if (!reading && !w->failed)
		note_error(segment.number, "");
}

/* What fails with one segment must not keep the others. */
static void
take_step_of(int number)
{
	Watched *w = &watched[number];
	bool served = false;
	bool survived = true;
	worker_transaction([&] {
		served = lock_and_serve(AccessShareLock);
		const Segment *segment = segment_by_number(number);
		if (served && segment != nullptr)
			survived = survives([&] { noting_error(number, [&] { take_step(*segment, w); }); });
	});
	if (!served)
		w->due = monotonic_now() + kInterval;
	if (survived && !w->failed)
		w->failing = false;
	if (survived)
		return;
	w->failing = true;
	start_reading(w, 0, monotonic_now() + kAfterError);
}

int64
rotate_segments(Database *of_this_database)
{
	database = of_this_database;
	int64 now = monotonic_now();
	if (now >= next_look)
	{
		next_look = now + kInterval;
		worker_transaction([&] {
			if (!lock_and_serve(AccessShareLock))
				return;
			for (RingName ring : all_rings)
			{
				look_after_current(look_at_ring(ring));
				watch_closed(look_at_ring(ring), now);
			}
		});
	}

	int64 next = next_look;
	int first = -1;
	for (int i = 0; i < kAllSegments; i++)
		if (watched[i].phase != Watched::kIdle &&
			(first < 0 || watched[i].due < watched[first].due))
			first = i;
	if (first >= 0 && watched[first].due <= now)
		take_step_of(first);
	for (const Watched &w : watched)
	{
		if (w.phase != Watched::kIdle)
			next = Min(next, w.due);
		if (w.failing)
			keep_failing();
	}
	return next;
}

} // namespace pgq
