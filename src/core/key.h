/*
 * Keys, which order the jobs of a queue, and hints, which stand for jobs in memory.
 *
 * Pure: no server header. Times are microseconds on the server's own scale (TimestampTz).
 */
#pragma once

#include <cstdint>
#include <limits>

namespace pgq {

/*
 * The run_at of a blocked job: 9999-12-01 UTC. pgq_enqueue refuses a time that is more than a thousand
 * years away, so no other job has this run_at, except by SQL.
 */
inline constexpr int64_t kBlockedRunAt = INT64_C(252452937600) * 1000 * 1000;

/* The order of ready jobs: priority DESC, run_at ASC, job_id ASC (protocol: pop-is-exact). */
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

/* The order of scheduled jobs in the timer: run_at ASC, job_id ASC. */
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

/* The place of a row version: a segment of the ring, and a tuple id in that segment. */
struct Place
{
	uint32_t block;
	uint16_t offset;
	uint16_t segment;

	friend constexpr bool operator==(const Place &, const Place &) = default;
};

/*
 * A hint: there may be a job at this place. A hint proves nothing, so a claim looks at the row.
 * delayed: false for a job that was due when it was enqueued and has not failed since. Such a job
 * stays due even if the clock is set back (Schedule::due()).
 */
struct Hint
{
	Key key;
	Place place;
	bool delayed;
	/* true: a marker, not a job. Memory may lack rows of the group from this key on (window.h) */
	bool marker;
	bool visited;  /* only in a marker: a process has begun to read these rows */
	int64_t group; /* group_id of the row; 0: the row has no group */

	constexpr TimerKey timer_key() const { return {key.run_at, key.job_id}; }
};

struct ByKey
{
	/*
	 * A marker is less than the hint of the job with the same key. Hints of one job with different
	 * groups are different: after the group of a row was changed, the row has two hints for a while,
	 * and only one of them may be dropped because its group has no room.
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
		/*
		 * After the priority of a row was changed, the row has two hints for a while. The set keeps
		 * both hints, so the hint with the higher priority is not lost.
		 */
		return a.timer_key() == b.timer_key() ? ByKey::less(a, b) : a.timer_key() < b.timer_key();
	}
};

} // namespace pgq
