/*
 * Cron: computes the ticks of a schedule, the moments at which the schedule enqueues a job.
 *
 * A schedule has five fields as in crontab(5): minute, hour, day of month, month, day of week; or
 * six, with seconds first. Instead of fields, a schedule may have a period. Its ticks are then the
 * multiples of the period since 2000-01-01 00:00 UTC, as date_bin() counts them.
 *
 * The fields are compared with the local time of a time zone. When the zone moves its clocks:
 *
 *   - If the hour field is `*`, or `*` with a step, every moment whose local time fits is a tick. An
 *     hour that the clocks repeat has its ticks twice, an hour that they skip has none.
 *   - If the hour field names hours, each fitting local time has one tick: the first moment with that
 *     local time. All fitting local times that the clocks skip have one tick together, at the
 *     moment of the skip.
 *
 * Pure: no server. A moment is in seconds since 1970-01-01 00:00 UTC. A local time is in the same
 * unit, without a zone.
 */
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace pgq {

struct Cron
{
	int64_t period; /* seconds; 0: the schedule has fields, not a period */
	/* Fields. Bit n of a field is set if the field allows the number n. */
	uint64_t seconds;
	uint64_t minutes;
	uint64_t hours;
	uint64_t days;	   /* days of the month */
	uint64_t months;   /* January is 1 */
	uint64_t weekdays; /* 0 is Sunday */
	/* Each flag: the text of that field begins with a star. */
	bool any_hour;
	bool any_day;
	bool any_weekday;
};

/* A syntax error in the text, and its place. */
struct CronError
{
	std::string_view field; /* name of the field; empty: the text as a whole is wrong */
	std::string_view text;	/* the wrong part of the text */
};

/* Parse fields, or a nickname such as @daily. Return false and fill *error on a syntax error. */
bool parse_cron(std::string_view text, Cron *cron, CronError *error);

/* A span of time without a change of the UTC offset: the local time is moment + offset. */
struct ZoneSpan
{
	int64_t end; /* the first moment after the span; kNever: the offset does not change any more */
	int64_t offset;
};

inline constexpr int64_t kNever = INT64_MAX;
inline constexpr int64_t kDay = 24 * 3600;
/* A schedule that has no tick in 40 years is assumed to have none at all. */
inline constexpr int64_t kFarthestTick = 40 * 366 * kDay;

/* ---- the next tick ---- */

/* Return the lowest set bit that is at least `from`; -1: none. */
inline int
next_bit(uint64_t bits, int from)
{
	bits = from < 64 ? bits & (~uint64_t{0} << from) : 0;
	return bits != 0 ? std::countr_zero(bits) : -1;
}

inline bool
has_bit(uint64_t bits, unsigned n)
{
	return (bits >> n & 1) != 0;
}

/*
 * Return the first second of a day, counted from midnight, that fits the hours, minutes and seconds
 * and is at least `from`; -1: none.
 */
inline int
fitting_second(const Cron &cron, int from)
{
	int minute = from / 60 % 60;
	int second = from % 60;
	for (int hour = next_bit(cron.hours, from / 3600); hour >= 0;
		 hour = next_bit(cron.hours, hour + 1))
	{
		if (hour > from / 3600)
			minute = second = 0;
		for (int fits = next_bit(cron.minutes, minute); fits >= 0;
			 fits = next_bit(cron.minutes, fits + 1))
		{
			int last = next_bit(cron.seconds, fits > minute ? 0 : second);
			if (last >= 0)
				return hour * 3600 + fits * 60 + last;
		}
		minute = second = 0;
	}
	return -1;
}

/*
 * Return whether the day fits. As in crontab(5), if the schedule restricts the day of month and
 * also the day of week, a day that fits one of the two fields is enough.
 */
inline bool
fits_day(const Cron &cron, const std::chrono::year_month_day &date, std::chrono::sys_days day)
{
	bool by_day = has_bit(cron.days, static_cast<unsigned>(date.day()));
	bool by_weekday = has_bit(cron.weekdays, std::chrono::weekday(day).c_encoding());
	return cron.any_day || cron.any_weekday ? by_day && by_weekday : by_day || by_weekday;
}

/* Return the first local time in [from, until] that the fields allow; kNever: none. */
inline int64_t
fitting_time(const Cron &cron, int64_t from, int64_t until)
{
	namespace calendar = std::chrono;
	auto seconds_of = [](calendar::sys_days day) {
		return calendar::duration_cast<calendar::seconds>(day.time_since_epoch()).count();
	};
	calendar::sys_days day{calendar::floor<calendar::days>(calendar::seconds{from})};
	while (seconds_of(day) <= until)
	{
		calendar::year_month_day date{day};
		if (!has_bit(cron.months, static_cast<unsigned>(date.month())))
		{
			day = calendar::sys_days{(date.year() / date.month() + calendar::months{1}) / 1};
			continue;
		}
		int64_t midnight = seconds_of(day);
		int begin = static_cast<int>(std::max<int64_t>(0, from - midnight));
		int second = fits_day(cron, date, day) ? fitting_second(cron, begin) : -1;
		if (second >= 0)
			return midnight + second <= until ? midnight + second : kNever;
		day += calendar::days{1};
	}
	return kNever;
}

inline int64_t
next_of_period(int64_t period, int64_t after)
{
	static constexpr int64_t kOrigin = 946684800; /* seconds from 1970-01-01 to 2000-01-01 */
	int64_t since = after - kOrigin;
	int64_t whole = since / period - (since % period < 0 ? 1 : 0);
	return kOrigin + (whole + 1) * period;
}

/*
 * Return the first tick after the moment `after`; kNever: none. zone.span_at(moment) returns the
 * ZoneSpan that contains the moment.
 */
template <typename Zone>
int64_t
next_tick(const Cron &cron, int64_t after, const Zone &zone)
{
	/*
	 * No zone moves its clocks by more than this. So after `after`, the clocks do not show again a
	 * local time that they showed before `start`.
	 */
	static constexpr int64_t kLongestMove = 2 * kDay;
	if (cron.period > 0)
		return next_of_period(cron.period, after);

	int64_t last = after + kFarthestTick;
	int64_t start = after - kLongestMove;
	int64_t shown = INT64_MIN; /* latest local time in the spans seen so far */
	while (start <= last)
	{
		ZoneSpan span = zone.span_at(start);
		int64_t first = start + span.offset;
		int64_t end = std::min(span.end, last + 1);
		bool once = !cron.any_hour && shown != INT64_MIN;
		/*
		 * If the hour field names hours (`once`), and the clocks skip local times at this moment,
		 * this moment is the one tick for all skipped times that the fields allow.
		 */
		if (once && start > after && first > shown + 1 &&
			fitting_time(cron, shown + 1, first - 1) != kNever)
			return start;
		int64_t from = std::max(first, after + 1 + span.offset);
		if (once)
			from = std::max(from, shown + 1);
		int64_t found = fitting_time(cron, from, end - 1 + span.offset);
		if (found != kNever)
			return found - span.offset;
		shown = std::max(shown, end - 1 + span.offset);
		start = end;
	}
	return kNever;
}

/* ---- missed ticks ---- */

struct Backlog
{
	int n;			/* number of ticks that are returned */
	int64_t before; /* number of older missed ticks, which are not returned; at most kCounted */
};
inline constexpr int64_t kCounted = 100000;

/*
 * Store the last ticks in [from, until], at most `most`, sorted from old to new. Return their
 * number.
 */
template <typename Zone>
int
last_ticks(const Cron &cron, int64_t from, int64_t until, const Zone &zone, int64_t *ticks,
		   int most)
{
	int64_t seen = 0;
	for (int64_t tick = next_tick(cron, from - 1, zone); tick <= until;
		 tick = next_tick(cron, tick, zone))
		ticks[seen++ % most] = tick;
	if (seen <= most)
		return static_cast<int>(seen);
	std::rotate(ticks, ticks + seen % most, ticks + most);
	return most;
}

/*
 * Store the newest ticks in [from, until], at most `most`, sorted from old to new. Return their
 * number, and the number of older ticks. There can be a hundred million ticks, so search backwards
 * from `until`, in a window whose length doubles each time.
 */
template <typename Zone>
Backlog
missed_ticks(const Cron &cron, int64_t from, int64_t until, const Zone &zone, int64_t *ticks,
			 int most)
{
	Backlog backlog = {};
	for (int64_t window = most;; window *= 2)
	{
		int64_t start = std::max(from, until - window + 1);
		backlog.n = last_ticks(cron, start, until, zone, ticks, most);
		if (backlog.n == most || start == from)
			break;
	}
	if (backlog.n == 0)
		return backlog;
	int64_t tick = next_tick(cron, from - 1, zone);
	for (; tick < ticks[0] && backlog.before < kCounted; backlog.before++)
		tick = next_tick(cron, tick, zone);
	return backlog;
}

} // namespace pgq
