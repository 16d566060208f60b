/*
 * What is done with a ring of segments, and when. Pure: what was seen comes in, what to do goes
 * out. ring/rotation.* looks and acts; README.md in ring/ tells the whole.
 *
 * New rows go to the current segment. When it is full the next bare one becomes current, and it is
 * closed. A closed segment is read. If few rows live in it, and they do not get fewer fast, it is
 * drained: they are moved to the segment of survivors, so that a job that waits for a month is not
 * copied at each rotation. One in which no row lives is truncated.
 *
 * Times are microseconds of the monotonic clock.
 */
#pragma once

#include "core/ring.h"

#include <algorithm>

namespace pgq {

/* How long to wait ... */
inline constexpr int64_t kSecondOfRing = 1000000;
inline constexpr int64_t kRingInterval = kSecondOfRing; /* between two looks */
inline constexpr int64_t kRingSoon =
	kRingInterval / 10; /* where a segment fills in a few seconds */
inline constexpr int64_t kRingOften = kRingInterval / 4; /* where dead rows get more in seconds */
inline constexpr int64_t kMostPatience = 32 * kRingInterval; /* where nothing can be done yet */
inline constexpr int64_t kMostPatienceByTime =
	300 * kRingInterval; /* where rows are kept for days */
inline constexpr int64_t kAfterRingError = 60 * kRingInterval;

/* ... between two batches of records that are deleted: they get a tenth of the time at most. */
constexpr int64_t
rest_after_expiry(int64_t took, bool more)
{
	constexpr int64_t kInterval = 5 * kSecondOfRing;
	/* What was deleted under an old snapshot is read again each time. */
	int64_t rest = 10 * took;
	return more ? rest : std::max(kInterval, rest);
}

/*
 * While the oldest snapshot stays the same each TRUNCATE leaves some dead rows in pg_class that
 * every backend has to step over: after each 64 of them segments are twice as large.
 */
constexpr int
size_factor(int truncated_under_one_snapshot)
{
	constexpr int kMany = 64;
	constexpr int kMostDoublings = 6;
	return 1 << std::min(truncated_under_one_snapshot / kMany, kMostDoublings);
}

/* ---- a ring ---- */

/* What is seen of it at one moment. */
struct RingView
{
	RingName name;
	uint32_t current;
	uint32_t survivors;		 /* or kNoSegment */
	int64_t least;			 /* bytes: a segment is not full before */
	bool bare[kAllSegments]; /* by number; the current one is never counted as bare */
	int bare_count;
	int64_t bytes[kAllSegments];
	int64_t closed_bytes;
};

/*
 * A backlog must not use up the ring, nor make segments so large that what is finished in them is
 * more than what waits.
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

/* What is closed before it is full takes segments from a backlog, which would have to be in larger ones. */
constexpr bool
is_half_bare(const RingView &ring)
{
	return 2 * ring.bare_count >= segments_in(ring.name);
}

/* Since the last look the current segment has become so much larger that the next look is due soon. */
constexpr bool
fills_fast(const RingView &ring, int64_t bytes_before)
{
	constexpr int64_t kSlowly = 16;
	return ring.bytes[ring.current] - bytes_before > full_size(ring) / kSlowly;
}

/* The first bare one behind the current one that is good for something; kNoSegment: none. */
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
 * A segment has more than 100 kB of indexes as soon as a row is in it. What little is moved must not
 * make its new place a full one, or it would be moved on, round and round.
 */
inline constexpr int64_t kLeastOfSurvivors = 256 * 1024;

/* Rows of other segments are moved there: it is not closed at all. */
constexpr bool
takes_survivors(const RingView &ring, uint32_t number)
{
	return ring.survivors == number &&
		   ring.bytes[number] < std::max(full_size(ring), kLeastOfSurvivors);
}

/* Where rows of that segment are moved to. The last bare one is for new rows. */
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

/* A pass over the pages, a piece at a time. */
struct SegmentPass
{
	uint32_t next;
	uint32_t first_live; /* where the first row was found; kNoBlock: none yet */
	int64_t live_bytes;	 /* of rows that live or may live, what is toasted included */
	int64_t dead;		 /* rows */
	bool many;			 /* more than is worth copying: the pass has stopped */
	/* Of rows that are kept for a time: the longest that one has been, and the longest that one still will be. */
	int64_t kept;
	int64_t left;
	bool at_end;
};

/*
 * So many bytes of live rows in a segment of that size are worth copying. In a small one, which was
 * closed for its dead rows, a quarter; where it was closed by time, all.
 */
inline constexpr int64_t kSmallSegment = 64 * 1024;
inline constexpr int64_t kSmallMove = 256 * 1024;

constexpr int64_t
few_bytes(RingName ring, int64_t table_bytes)
{
	int64_t few = table_bytes / rings[ring].few;
	int64_t small =
		is_truncated_by_time(ring) ? kSmallSegment : std::min(table_bytes / 4, kSmallMove);
	return std::max(few, small);
}

/* A pass has found so many dead rows, and so little that lives, that the segment may go. */
constexpr bool
is_worn(const SegmentPass &pass, int64_t most_dead)
{
	return pass.at_end && !pass.many && pass.dead >= most_dead;
}

/* There are so many more than at the last look that the next one is due soon. */
constexpr bool
wears_fast(int64_t dead, int64_t dead_before, int64_t most_dead)
{
	constexpr int64_t kSlowly = 16;
	return dead - dead_before > most_dead / kSlowly;
}

/* A place among the versions of a segment, in their physical order. */
struct Position
{
	uint32_t block;
	uint16_t offset;

	constexpr bool operator==(const Position &) const = default;
};

/* What a scheduler has found out about a segment, and what it does next. One function a transition. */
struct SegmentWatch
{
	static constexpr int kMoveAtOnce = 64;

	enum Phase : uint8_t
	{
		kIdle, /* not closed */
		kReading,
		kDraining,
		kEmpty,
	} phase;
	SegmentPass pass;
	int64_t live_before; /* bytes, in the pass before this one; 0: it was another */
	Position move_from;
	Position batch_from; /* where the batch began that is being moved */
	int batch;			 /* rows moved in a transaction */
	int moved;			 /* in this drain */
	bool moving;		 /* what is raised now is the fault of a row */
	bool failed;		 /* some row could not be moved */
	uint64_t changed_at; /* EMPTY: position in the WAL; no page was changed since */
	bool failing;		 /* the last step that did something has raised */
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

	/* A piece was read. survivors() says whether rows of other segments are moved to this one. */
	template <typename Survivors> constexpr void note_reading(int64_t now, Survivors survivors)
	{
		if (pass.many)
		{
			/* Jobs are finished from the front, mostly. */
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
			start_reading(0, now + patience); /* its dead rows count */
		}
		else
			note_few_live(now);
	}

	/* If they get fewer fast they need not be copied. */
	constexpr void note_few_live(int64_t now)
	{
		/* Nor if they are kept for no longer than they have been: they hold up their segment for half of its life at most. */
		if (pass.left > 0 && pass.left <= pass.kept)
		{
			be_patient();
			live_before = 0;
			start_reading(pass.first_live, now + std::min(patience, pass.left));
			return;
		}
		bool first = live_before == 0; /* what is in hand is done soon, mostly */
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

	/* What somebody has in hand is left at the end: look again, sooner or later as it goes. */
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

	/* Then one by one, without the one that cannot be moved; later, if not even that can be told. */
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

	/* A row was found in what seemed empty. */
	constexpr void note_rows() { start_reading(0, due); }

	/* A lock that a dump holds for hours is not worth looking at the segment again each second. */
	constexpr void note_lock(int64_t now)
	{
		be_patient();
		due = now + patience;
	}

	/* A step has not raised. tried: it was taken, since the tables could be locked. */
	constexpr void note_success(int64_t now, bool tried)
	{
		if (!tried)
			due = now + kRingInterval;
		if (!failed)
			failing = false;
	}

	/* A step has raised: it has done nothing. */
	constexpr void note_error(int64_t now)
	{
		if (moving)
			return note_failed_batch(now);
		failing = true;
		start_reading(0, now + kAfterRingError);
	}
};

/* Whose turn is it? -1: nobody's yet. */
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

/* The time of the next step. */
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
