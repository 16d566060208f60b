/*
 * What a job is ordered by, and the hint that stands for it in memory.
 *
 * Pure: no server header.  Times are microseconds on the server's own scale
 * (TimestampTz).
 */
#pragma once

#include <cstdint>
#include <limits>

namespace pgq {

/* Priority DESC, run_at ASC, job_id ASC (protocol: pop-is-exact). */
struct Key
{
	int32_t priority;
	int64_t run_at;
	int64_t job_id;

	static constexpr Key lowest() { return {INT32_MAX, INT64_MIN, INT64_MIN}; }
	static constexpr Key highest() { return {INT32_MIN, INT64_MAX, INT64_MAX}; }

	friend constexpr bool operator<(const Key &a, const Key &b)
	{
		if (a.priority != b.priority)
			return a.priority > b.priority;
		if (a.run_at != b.run_at)
			return a.run_at < b.run_at;
		return a.job_id < b.job_id;
	}
	friend constexpr bool operator==(const Key &, const Key &) = default;
};

/* The order of the timer: run_at ASC, job_id ASC. */
struct TimerKey
{
	int64_t run_at;
	int64_t job_id;

	static constexpr TimerKey lowest() { return {INT64_MIN, INT64_MIN}; }
	static constexpr TimerKey highest() { return {INT64_MAX, INT64_MAX}; }

	friend constexpr bool operator<(const TimerKey &a, const TimerKey &b)
	{
		return a.run_at != b.run_at ? a.run_at < b.run_at : a.job_id < b.job_id;
	}
	friend constexpr bool operator==(const TimerKey &, const TimerKey &) = default;
};

/* Where a row version lives: a segment of the ring and a tuple id in it. */
struct Place
{
	uint32_t block;
	uint16_t offset;
	uint16_t segment;

	friend constexpr bool operator==(const Place &, const Place &) = default;
};

/*
 * "There may be a job here."  A hint proves nothing: whoever takes it verifies
 * the row.  delayed is false for a job that was due when it was enqueued and has
 * not failed since; such a job is due whatever the clock says later (see Schedule::due).
 */
struct Hint
{
	Key key;
	Place place;
	bool delayed;
	bool
		marker; /* in a window: not a job; rows of the group from this key on may be missing there */
	bool visited;  /* a marker: a process has begun to read these rows */
	int64_t group; /* the row's group_id; 0: it has none */

	constexpr TimerKey timer_key() const { return {key.run_at, key.job_id}; }
};

struct ByKey
{
	/*
	 * A marker comes before the job with its key. A row whose group was changed has two hints for a while, and only
	 * one of them may be passed over.
	 */
	static constexpr bool less(const Hint &a, const Hint &b)
	{
		if (!(a.key == b.key))
			return a.key < b.key;
		return a.marker != b.marker ? a.marker : a.group < b.group;
	}
};

struct ByRunAt
{
	static constexpr bool less(const Hint &a, const Hint &b)
	{
		/* A row whose priority was changed has two hints for a while; the better one must survive. */
		return a.timer_key() == b.timer_key() ? ByKey::less(a, b) : a.timer_key() < b.timer_key();
	}
};

} // namespace pgq
