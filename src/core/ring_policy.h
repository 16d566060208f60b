/*
 * The policy of rotation: what to do with a ring of segments, and when. Pure: the functions get
 * observations and return decisions. ring/rotation.* observes and acts; the README of ring/
 * describes rotation as a whole.
 *
 * New rows go to the current segment. When that segment is full it is closed, and the next bare
 * segment (one without a page) becomes current. The scheduler reads closed segments to find their
 * live rows. A segment without a live row is truncated. If a segment has few live rows, and their
 * number does not fall fast, the segment is drained: its live rows are moved to the segment of
 * survivors. That segment is drained itself only when it is full or has many dead rows, so a job
 * that waits for a month is not moved at each rotation.
 *
 * Times are microseconds of the monotonic clock.
 */
#pragma once

#include "core/ring.h"

#include <algorithm>

namespace pgq {

/* Intervals and waiting times, in microseconds. */
inline constexpr int64_t kSecondOfRing = 1000000;
inline constexpr int64_t kRingInterval = kSecondOfRing; /* interval between two checks of a ring */
/*
 * Time until the next check if the current segment may become full, or a closed segment may be
 * truncated, within seconds.
 */
inline constexpr int64_t kRingSoon = kRingInterval / 10;
/* Time until the next check if the number of dead rows in the current segment grows fast. */
inline constexpr int64_t kRingOften = kRingInterval / 4;
/* Longest time until the next check of a segment in which nothing can be done yet. */
inline constexpr int64_t kMostPatience = 32 * kRingInterval;
/* Longest time until that check in a ring whose rows are kept for days. */
inline constexpr int64_t kMostPatienceByTime = 300 * kRingInterval;
inline constexpr int64_t kAfterRingError = 60 * kRingInterval;

/*
 * Return the pause (microseconds) after a batch of expired records was deleted. took: the duration
 * of the deletion; deletions may take at most a tenth of all time. more: the batch was full, so
 * there may be more records.
 */
constexpr int64_t
rest_after_expiry(int64_t took, bool more)
{
	constexpr int64_t kInterval = 5 * kSecondOfRing;
	/*
	 * The pause is long: an old snapshot keeps deleted rows in the table, and each batch reads
	 * these rows again.
	 */
	int64_t rest = 10 * took;
	return more ? rest : std::max(kInterval, rest);
}

/*
 * Return the factor by which segments are larger than usual. While the oldest snapshot stays the
 * same, each TRUNCATE leaves dead rows in pg_class that every backend has to skip. So after every
 * 64 TRUNCATEs, segments become twice as large.
 */
constexpr int
size_factor(int truncated_under_one_snapshot)
{
	constexpr int kMany = 64;
	constexpr int kMostDoublings = 6;
	return 1 << std::min(truncated_under_one_snapshot / kMany, kMostDoublings);
}

/* ---- a ring ---- */

/* A ring as observed at one moment. */
struct RingView
{
	RingName name;
	uint32_t current;
	uint32_t survivors;		 /* number of the segment of survivors; kNoSegment: there is none */
	int64_t least;			 /* bytes; a segment smaller than this is not full */
	bool bare[kAllSegments]; /* indexed by segment number; never true for the current segment */
	int bare_count;
	int64_t bytes[kAllSegments];
	int64_t closed_bytes;
};

/*
 * Return the size in bytes at which a segment is full: ring.least or, if that is more, twice the
 * bytes of all closed segments divided by the number of bare segments. So segments get larger as
 * fewer bare segments are left, and a backlog does not use up the ring. If no segment is bare, no
 * other segment can become the current one, and the result is ring.least.
 */
constexpr int64_t
full_size(const RingView &ring)
{
	return ring.bare_count == 0 ? ring.least
								: std::max(ring.least, 2 * ring.closed_bytes / ring.bare_count);
}

constexpr bool
is_full(const RingView &ring, uint32_t number)
{
	return ring.bytes[number] >= full_size(ring);
}

/*
 * Return whether at least half of the segments are bare. Only then may a segment be closed before
 * it is full, since each closed segment leaves one segment less for a backlog.
 */
constexpr bool
is_half_bare(const RingView &ring)
{
	return 2 * ring.bare_count >= segments_in(ring.name);
}

/*
 * Return whether the current segment has grown so fast since the last check that the next check
 * must come soon.
 */
constexpr bool
fills_fast(const RingView &ring, int64_t bytes_before)
{
	constexpr int64_t kSlowly = 16;
	return ring.bytes[ring.current] - bytes_before > full_size(ring) / kSlowly;
}

/*
 * Return the first bare segment after the current segment, in ring order, for which good(number) is
 * true; kNoSegment: none.
 */
template <typename Good>
constexpr uint32_t
next_bare(const RingView &ring, Good good)
{
	uint32_t first = first_in(ring.name);
	uint32_t n = segments_in(ring.name);
	for (uint32_t i = 1; i < n; i++)
	{
		uint32_t number = first + (ring.current - first + i) % n;
		if (ring.bare[number] && good(number))
			return number;
	}
	return kNoSegment;
}

/*
 * Size below which the segment of survivors never counts as full. The indexes of a segment take
 * more than 100 kB as soon as the segment has a row. If these indexes made a small segment full,
 * its rows would be moved again and again.
 */
inline constexpr int64_t kLeastOfSurvivors = 256 * 1024;

/* Return whether this is the segment of survivors and has room. Such a segment is not drained. */
constexpr bool
takes_survivors(const RingView &ring, uint32_t number)
{
	return ring.survivors == number &&
		   ring.bytes[number] < std::max(full_size(ring), kLeastOfSurvivors);
}

/*
 * Return the segment to which the rows of `from` are moved. The last bare segment is never chosen,
 * since it is kept for new rows.
 */
constexpr uint32_t
refuge_from(const RingView &ring, uint32_t from)
{
	if (ring.survivors != kNoSegment && ring.survivors != from &&
		takes_survivors(ring, ring.survivors))
		return ring.survivors;
	return ring.bare_count > 1 ? next_bare(ring, [](uint32_t) { return true; }) : ring.current;
}

/* ---- a closed segment ---- */

inline constexpr uint32_t kNoBlock = UINT32_MAX; /* InvalidBlockNumber */
inline constexpr uint16_t kFirstOffset = 1;		 /* FirstOffsetNumber */

/* State of one pass over the pages of a closed segment, which reads a few pages at a time. */
struct SegmentPass
{
	uint32_t next;
	uint32_t first_live; /* block of the first live row; kNoBlock: none yet */
	int64_t live_bytes;	 /* bytes of rows that are live or may be live, with TOAST data */
	int64_t dead;		 /* number of dead rows */
	bool many;			 /* live_bytes is more than few_bytes(); the pass has stopped */
	/*
	 * For records (microseconds): the longest time for which a row has been kept already, and the
	 * longest time for which a row must still be kept.
	 */
	int64_t kept;
	int64_t left;
	bool at_end;
};

inline constexpr int64_t kSmallSegment = 64 * 1024;
inline constexpr int64_t kSmallMove = 256 * 1024;

/*
 * Return how many bytes of live rows are worth copying out of a segment of this size. For a small
 * segment, which was closed because of its dead rows, the result is a quarter of its size. In a
 * ring that is truncated by time, all of a small segment is worth copying.
 */
constexpr int64_t
few_bytes(RingName ring, int64_t table_bytes)
{
	int64_t few = table_bytes / rings[ring].few;
	int64_t small =
		is_truncated_by_time(ring) ? kSmallSegment : std::min(table_bytes / 4, kSmallMove);
	return std::max(few, small);
}

/*
 * Return whether a complete pass has found many dead rows and few live rows. If so, the current
 * segment is closed, or the segment of survivors is drained.
 */
constexpr bool
is_worn(const SegmentPass &pass, int64_t most_dead)
{
	return pass.at_end && !pass.many && pass.dead >= most_dead;
}

/*
 * Return whether the number of dead rows has grown so fast since the last check that the next check
 * must come soon.
 */
constexpr bool
wears_fast(int64_t dead, int64_t dead_before, int64_t most_dead)
{
	constexpr int64_t kSlowly = 16;
	return dead - dead_before > most_dead / kSlowly;
}

/* The place of a row version in a segment. */
struct Position
{
	uint32_t block;
	uint16_t offset;

	constexpr bool operator==(const Position &) const = default;
};

/*
 * State of a closed segment: the scheduler's observations, and the next step. Each function is one
 * transition.
 */
struct SegmentWatch
{
	static constexpr int kMoveAtOnce = 64;

	enum Phase : uint8_t
	{
		kIdle, /* the segment is not closed */
		kReading,
		kDraining,
		kEmpty,
	} phase;
	SegmentPass pass;
	int64_t live_before; /* live_bytes of the previous pass; 0: no previous pass */
	Position move_from;
	Position batch_from; /* start of the batch that is being moved */
	int batch;			 /* number of rows to move in one transaction */
	int moved;			 /* rows moved in this drain */
	bool moving;		 /* a batch is being moved, so an error comes from the move */
	bool failed;		 /* a row could not be moved in this drain */
	uint64_t changed_at; /* in kEmpty: WAL position since which no page was changed */
	bool failing;		 /* the last step that tried to change something has failed */
	int64_t due;
	int64_t patience;
	int64_t most_patience;

	constexpr void be_patient() { patience = std::min(2 * patience, most_patience); }

	constexpr void start_reading(uint32_t from, int64_t when)
	{
		phase = kReading;
		pass = {.next = from, .first_live = kNoBlock};
		due = when;
	}

	constexpr void close(int64_t now, int64_t most = kMostPatience)
	{
		patience = kRingInterval;
		most_patience = most;
		start_reading(0, now);
	}

	/*
	 * Note that a few pages were read. survivors() returns whether rows of other segments are moved
	 * to this segment.
	 */
	template <typename Survivors> constexpr void note_reading(int64_t now, Survivors survivors)
	{
		if (pass.many)
		{
			/* Usually the oldest jobs end first, so begin at the first live row next time. */
			be_patient();
			live_before = 0;
			start_reading(pass.first_live, now + patience);
		}
		else if (!pass.at_end)
			due = now;
		else if (pass.first_live == kNoBlock)
		{
			phase = kEmpty;
			changed_at = 0;
		}
		else if (survivors())
		{
			be_patient();
			/* begin at the first page, to count the dead rows of the whole segment */
			start_reading(0, now + patience);
		}
		else
			note_few_live(now);
	}

	/*
	 * The pass has found few live rows. If their number falls fast, wait; otherwise drain the
	 * segment.
	 */
	constexpr void note_few_live(int64_t now)
	{
		/*
		 * Do not move records that must be kept no longer than they have been kept already: they
		 * delay the truncation by no more than that time.
		 */
		if (pass.left > 0 && pass.left <= pass.kept)
		{
			be_patient();
			live_before = 0;
			start_reading(pass.first_live, now + std::min(patience, pass.left));
			return;
		}
		/* At the first pass, many of the live rows belong to jobs in work, which end soon. */
		bool first = live_before == 0;
		bool dwindling = first || 2 * pass.live_bytes < live_before;
		live_before = pass.live_bytes;
		if (dwindling)
		{
			start_reading(pass.first_live, now + (first ? kRingInterval / 2 : kRingInterval));
			return;
		}
		phase = kDraining;
		move_from = {pass.first_live, kFirstOffset};
		batch = kMoveAtOnce;
		moved = 0;
		failed = false;
	}

	constexpr void begin_batch()
	{
		batch_from = move_from;
		moving = true;
	}

	/*
	 * Note that n rows were moved. at_end: the whole segment was visited, but rows that were locked
	 * may be left. Read the segment again, sooner if this drain has moved rows.
	 */
	constexpr void note_batch(int64_t now, int n, bool at_end)
	{
		moving = false;
		moved += n;
		if (!at_end)
			return;
		if (moved > 0)
			patience = kRingInterval;
		else
			be_patient();
		start_reading(pass.first_live, now + (failed ? kAfterRingError : patience));
	}

	/*
	 * Note that moving a batch has failed. Move its rows one by one, and skip a row that fails. If
	 * no row can be moved in this way, try again later.
	 */
	constexpr void note_failed_batch(int64_t now)
	{
		bool single = batch == 1;
		bool stuck = single && move_from == batch_from;
		failed |= single;
		failing = failed;
		if (!single)
			move_from = batch_from;
		batch = 1;
		note_batch(now, 0, stuck);
	}

	/* Note that a segment that seemed empty has a row: read it again. */
	constexpr void note_rows() { start_reading(0, due); }

	/*
	 * Note that the segment could not be locked. A dump may hold its lock for hours, so wait longer
	 * each time.
	 */
	constexpr void note_lock(int64_t now)
	{
		be_patient();
		due = now + patience;
	}

	/*
	 * Note that a step has ended without error. tried: the step was carried out; if false, the
	 * tables could not be locked.
	 */
	constexpr void note_success(int64_t now, bool tried)
	{
		if (!tried)
			due = now + kRingInterval;
		if (!failed)
			failing = false;
	}

	/* Note that a step has failed and was rolled back. */
	constexpr void note_error(int64_t now)
	{
		if (moving)
			return note_failed_batch(now);
		failing = true;
		start_reading(0, now + kAfterRingError);
	}
};

/* Return the segment whose next step is due first; -1: none is due yet. */
inline int
segment_in_turn(const SegmentWatch (&watches)[kAllSegments], int64_t now)
{
	int first = -1;
	for (int i = 0; i < kAllSegments; i++)
		if (watches[i].phase != SegmentWatch::kIdle &&
			(first < 0 || watches[i].due < watches[first].due))
			first = i;
	return first >= 0 && watches[first].due <= now ? first : -1;
}

/*
 * Return the time of the next step of a segment or of the next check of the ring, whichever is
 * earlier.
 */
inline int64_t
next_turn(const SegmentWatch (&watches)[kAllSegments], int64_t next_look)
{
	int64_t next = next_look;
	for (const SegmentWatch &watch : watches)
		if (watch.phase != SegmentWatch::kIdle)
			next = std::min(next, watch.due);
	return next;
}

} // namespace pgq
