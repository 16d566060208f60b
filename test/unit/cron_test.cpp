/*
 * Tests of Cron. The results are compared with a simple implementation, which steps through time by
 * minutes or seconds, and compares each local time with the fields of the expression.
 */
#include "core/cron.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace {

using namespace pgq;
using namespace std::chrono;

Cron
cron_of(std::string_view text)
{
	Cron cron;
	CronError error;
	EXPECT_TRUE(parse_cron(text, &cron, &error))
		<< text << ": " << error.field << " " << error.text;
	return cron;
}

std::string
error_of(std::string_view text)
{
	Cron cron;
	CronError error;
	if (parse_cron(text, &cron, &error))
		return "none";
	return std::string(error.field) + ": " + std::string(error.text);
}

constexpr int64_t
moment(int y, unsigned m, unsigned d, int hour = 0, int minute = 0, int second = 0)
{
	return duration_cast<seconds>(sys_days{year{y} / month{m} / day{d}}.time_since_epoch())
			   .count() +
		   hour * 3600 + minute * 60 + second;
}

/* A time zone of the system, with the moments in a range of time at which its clocks are moved. */
class TestZone
{
public:
	TestZone(const char *name, int64_t from, int64_t until)
	{
		setenv("TZ", name, 1);
		tzset();
		int64_t offset = offset_of(from);
		for (int64_t t = from; t < until; t += 900)
			if (int64_t next = offset_of(t + 900); next != offset)
			{
				int64_t same = t;
				int64_t moved = t + 900;
				while (moved - same > 1)
				{
					int64_t middle = (same + moved) / 2;
					(offset_of(middle) == offset ? same : moved) = middle;
				}
				spans_.push_back({moved, offset});
				offset = next;
			}
		spans_.push_back({kNever, offset});
		unsetenv("TZ");
		tzset();
	}

	ZoneSpan span_at(int64_t t) const
	{
		return *std::find_if(spans_.begin(), spans_.end(),
							 [&](const ZoneSpan &span) { return t < span.end; });
	}
	size_t moves() const { return spans_.size() - 1; }
	int64_t move(int i) const { return spans_[i].end; }

private:
	static int64_t offset_of(int64_t t)
	{
		time_t time = t;
		struct tm shown;
		localtime_r(&time, &shown);
		return shown.tm_gmtoff;
	}
	std::vector<ZoneSpan> spans_;
};

const TestZone utc("UTC", 0, 0);

bool
fits(const Cron &cron, int64_t local)
{
	sys_days date = floor<days>(sys_seconds{seconds{local}});
	year_month_day ymd{date};
	auto second = local - duration_cast<seconds>(date.time_since_epoch()).count();
	bool by_day = cron.days >> static_cast<unsigned>(ymd.day()) & 1;
	bool by_weekday = cron.weekdays >> weekday{date}.c_encoding() & 1;
	return (cron.seconds >> (second % 60) & 1) && (cron.minutes >> (second / 60 % 60) & 1) &&
		   (cron.hours >> (second / 3600) & 1) &&
		   (cron.months >> static_cast<unsigned>(ymd.month()) & 1) &&
		   (cron.any_day || cron.any_weekday ? by_day && by_weekday : by_day || by_weekday);
}

/*
 * Return all ticks in [from, until), checking one step after the other. The clocks are followed
 * from two days before.
 */
std::vector<int64_t>
reference(const Cron &cron, int64_t from, int64_t until, const TestZone &zone, int64_t step)
{
	std::vector<int64_t> ticks;
	ZoneSpan span = {INT64_MIN, 0};
	int64_t latest = INT64_MIN;
	for (int64_t t = from - 2 * kDay; t < until; t += step)
	{
		if (t >= span.end)
			span = zone.span_at(t);
		int64_t local = t + span.offset;
		bool tick = cron.any_hour && fits(cron, local);
		if (!cron.any_hour && latest != INT64_MIN)
			for (int64_t shown = latest + step; shown <= local; shown += step)
				tick |= fits(cron, shown);
		latest = std::max(latest, local);
		if (tick && t >= from)
			ticks.push_back(t);
	}
	return ticks;
}

std::vector<int64_t>
found(const Cron &cron, int64_t from, int64_t until, const TestZone &zone)
{
	std::vector<int64_t> ticks;
	for (int64_t t = next_tick(cron, from - 1, zone); t < until; t = next_tick(cron, t, zone))
		ticks.push_back(t);
	return ticks;
}

const char *const zones[] = {
	"UTC",		   "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu",
	"Pacific/Apia"};
const char *const five[] = {
	"* * * * *",	 "0 * * * *",	  "*/7 * * * *",		  "30 */2 * * *",
	"15 */5 * * *",	 "0 2 * * *",	  "30 2 * * *",			  "*/10 2 * * *",
	"0 0 * * *",	 "45 1 * * *",	  "15,45 1-3 * *  *",	  "0 2 * * sun",
	"0 12 13 * fri", "0 0 */2 * mon", "30 2 29-31 * *",		  "0 3 1 jan,apr *",
	"59 23 31 12 *", "0 0 30 dec *",  "5 0-4/2 * 3-4,9-11 *",
};

/* Two years with unusual changes of the clocks: Apia skipped the 30th of December 2011. */
TEST(Cron, AgreesWithAWalkFromMinuteToMinute)
{
	int64_t from = moment(2011, 1, 1);
	int64_t until = moment(2013, 1, 1);
	for (const char *name : zones)
	{
		TestZone zone(name, from - 3 * kDay, until);
		for (const char *text : five)
		{
			Cron cron = cron_of(text);
			EXPECT_EQ(found(cron, from, until, zone), reference(cron, from, until, zone, 60))
				<< name << " " << text;
		}
	}
}

TEST(Cron, AgreesWithAWalkFromSecondToSecondWhereClocksAreMoved)
{
	for (const char *name : zones)
	{
		TestZone zone(name, moment(2011, 1, 1), moment(2012, 6, 1));
		for (size_t i = 0; i < zone.moves(); i++)
		{
			int64_t from = zone.move(i) - kDay / 4;
			int64_t until = zone.move(i) + kDay / 4;
			for (const char *text : {"* * * * * *", "*/13 * * * * *", "7 */20 */2 * * *",
									 "59 59 1 * * *", "0-3 0,30 2 * * *", "*/10 * 1-2 * * *"})
			{
				Cron cron = cron_of(text);
				EXPECT_EQ(found(cron, from, until, zone), reference(cron, from, until, zone, 1))
					<< name << " " << text << " " << zone.move(i);
			}
		}
	}
}

/* The search from any moment finds the same next tick as the reference. */
TEST(Cron, DoesNotDependOnWhereOneBegins)
{
	TestZone zone("Europe/Berlin", moment(2026, 1, 1), moment(2027, 1, 1));
	ASSERT_EQ(zone.moves(), 2u);
	for (const char *text : {"*/20 2 * * *", "*/20 * * * *"})
		for (int i : {0, 1})
		{
			Cron cron = cron_of(text);
			auto all = found(cron, zone.move(i) - kDay, zone.move(i) + 2 * kDay, zone);
			for (int64_t t = zone.move(i) - kDay; t < zone.move(i) + kDay; t += 59)
				EXPECT_EQ(next_tick(cron, t, zone), *std::upper_bound(all.begin(), all.end(), t));
		}
}

TEST(Cron, RunsOnceWhereTheHourIsSkippedOrRepeated)
{
	TestZone berlin("Europe/Berlin", moment(2026, 1, 1), moment(2027, 1, 1));
	int64_t spring = moment(2026, 3, 29, 1);
	int64_t autumn = moment(2026, 10, 25, 1);
	EXPECT_EQ(berlin.move(0), spring);
	EXPECT_EQ(berlin.move(1), autumn);
	/* 2:30 is skipped: 3:00 comes at once. */
	EXPECT_EQ(next_tick(cron_of("30 2 * * *"), spring - 3600, berlin), spring);
	EXPECT_EQ(next_tick(cron_of("30 2 * * *"), spring, berlin), spring + kDay - 1800);
	/*
	 * All skipped times have one tick together, which also replaces a regular tick at that moment.
	 */
	EXPECT_EQ(found(cron_of("*/5 2,3 * * *"), spring - 600, spring + 300, berlin),
			  std::vector<int64_t>{spring});
	/* 2:30 comes twice: the first time counts. */
	EXPECT_EQ(found(cron_of("30 2 * * *"), autumn - 7200, autumn + 7200, berlin),
			  std::vector<int64_t>{autumn - 1800});
	EXPECT_EQ(found(cron_of("30 * * * *"), autumn - 3600, autumn + 3600, berlin),
			  (std::vector<int64_t>{autumn - 1800, autumn + 1800}));
}

TEST(Cron, OneOfTwoRestrictedDaysIsEnough)
{
	auto days_of = [](const char *text) {
		std::string days;
		for (int64_t t : found(cron_of(text), moment(2026, 11, 1), moment(2026, 12, 1), utc))
			days += std::to_string((t - moment(2026, 11, 1)) / kDay + 1) + " ";
		return days;
	};
	EXPECT_EQ(days_of("0 0 13 * *"), "13 ");
	EXPECT_EQ(days_of("0 0 * * fri"), "6 13 20 27 ");
	EXPECT_EQ(days_of("0 0 10 * fri"), "6 10 13 20 27 ");
	EXPECT_EQ(days_of("0 0 */10 * fri"), "") << "the 1st, 11th, 21st and 31st: none is a Friday";
	EXPECT_EQ(days_of("0 0 */10 * sat,sun"), "1 21 ");
}

TEST(Cron, Fields)
{
	EXPECT_EQ(cron_of("* * * * *").seconds, 1u);
	EXPECT_EQ(cron_of("* * * * * *").seconds, (uint64_t{1} << 60) - 1);
	EXPECT_EQ(cron_of("5-20/5,59 * * * *").minutes,
			  1u << 5 | 1u << 10 | 1u << 15 | 1u << 20 | uint64_t{1} << 59);
	EXPECT_EQ(cron_of("\t0  0 1 JAN-Mar,dec Sun \n").months,
			  1u << 1 | 1u << 2 | 1u << 3 | 1u << 12);
	EXPECT_EQ(cron_of("0 0 * * 7").weekdays, 1u);
	EXPECT_EQ(cron_of("0 0 * * 5-7").weekdays, 1u | 1u << 5 | 1u << 6);
	EXPECT_EQ(cron_of("0 0 * * fri-sun").weekdays, 1u | 1u << 5 | 1u << 6);
	EXPECT_EQ(cron_of("0 0 * * sun-tue").weekdays, 7u);
	EXPECT_EQ(cron_of("0 0 * * *").weekdays, 127u);
	EXPECT_EQ(cron_of("0 0 * * */2").weekdays, 1u | 1u << 2 | 1u << 4 | 1u << 6);
	EXPECT_EQ(cron_of("@Hourly").hours, (1u << 24) - 1);
	EXPECT_EQ(cron_of("@weekly").weekdays, 1u);
	EXPECT_TRUE(cron_of("0 */3 * * *").any_hour);
	EXPECT_FALSE(cron_of("0 0-23 * * *").any_hour);
	EXPECT_TRUE(cron_of("@hourly").any_hour);
}

TEST(Cron, WhatIsWrongIsNamed)
{
	EXPECT_EQ(error_of(""), ": ");
	EXPECT_EQ(error_of("* * * *"), ": * * * *");
	EXPECT_EQ(error_of("* * * * * * *"), ": * * * * * * *");
	EXPECT_EQ(error_of("@reboot"), ": @reboot");
	EXPECT_EQ(error_of("@daily *"), ": @daily *");
	EXPECT_EQ(error_of("60 * * * *"), "minute: 60");
	EXPECT_EQ(error_of("60 * * * * *"), "second: 60");
	EXPECT_EQ(error_of("* 24 * * *"), "hour: 24");
	EXPECT_EQ(error_of("* * 0 * *"), "day of month: 0");
	EXPECT_EQ(error_of("* * 32 * *"), "day of month: 32");
	EXPECT_EQ(error_of("* * * 13 *"), "month: 13");
	EXPECT_EQ(error_of("* * * 0 *"), "month: 0");
	EXPECT_EQ(error_of("* * * * 8"), "day of week: 8");
	EXPECT_EQ(error_of("* * * * frii"), "day of week: frii");
	for (const char *minute :
		 {"5-1", "*/0", "*/",	 "/5",			"5/5", "1,",  ",1", "-1", "1-",	 "1-2-3",
		  "*-5", "**",	"1/2/3", "99999999999", "+1",  "0x1", "?",	"L",  "jan", "1.5"})
		EXPECT_EQ(error_of(std::string(minute) + " * * * *"), "minute: " + std::string(minute));
}

TEST(Cron, WhatNeverComes)
{
	EXPECT_EQ(next_tick(cron_of("0 0 30 2 *"), moment(2026, 1, 1), utc), kNever);
	EXPECT_EQ(next_tick(cron_of("0 0 31 4,6,9,11 *"), moment(2026, 1, 1), utc), kNever);
	EXPECT_EQ(next_tick(cron_of("0 0 29 2 *"), moment(2026, 1, 1), utc), moment(2028, 2, 29));
	EXPECT_EQ(next_tick(cron_of("0 0 29 2 *"), moment(2097, 1, 1), utc), moment(2104, 2, 29));
}

TEST(Cron, PeriodsAreCountedFromTheYear2000)
{
	Cron cron = {.period = 90};
	EXPECT_EQ(next_tick(cron, moment(2000, 1, 1), utc), moment(2000, 1, 1) + 90);
	EXPECT_EQ(next_tick(cron, moment(2000, 1, 1) - 1, utc), moment(2000, 1, 1));
	EXPECT_EQ(next_tick(cron, moment(2000, 1, 1) - 90, utc), moment(2000, 1, 1));
	EXPECT_EQ(next_tick(cron, moment(2000, 1, 1) - 91, utc), moment(2000, 1, 1) - 90);
	EXPECT_EQ(next_tick(cron, moment(2026, 1, 1, 12, 0, 1), utc), moment(2026, 1, 1, 12, 1, 30));
}

TEST(Cron, MissedOnesAreTheNewest)
{
	int64_t from = moment(2026, 1, 1);
	int64_t ticks[1000];
	/* Few missed ticks. */
	Backlog few = missed_ticks(cron_of("0 * * * *"), from, from + 3 * 3600 + 5, utc, ticks, 1000);
	EXPECT_EQ(few.n, 4);
	EXPECT_EQ(few.before, 0);
	EXPECT_EQ(ticks[0], from);
	EXPECT_EQ(ticks[3], from + 3 * 3600);
	/* More ticks than the array can take. */
	Backlog many = missed_ticks(cron_of("* * * * *"), from, from + 5000 * 60, utc, ticks, 1000);
	EXPECT_EQ(many.n, 1000);
	EXPECT_EQ(many.before, 4001);
	for (int i = 0; i < 1000; i++)
		EXPECT_EQ(ticks[i], from + (4001 + i) * 60);
	/* More ticks than are counted. */
	Backlog years =
		missed_ticks(cron_of("* * * * * *"), from, from + 3 * 366 * kDay, utc, ticks, 7);
	EXPECT_EQ(years.n, 7);
	EXPECT_EQ(years.before, kCounted);
	EXPECT_EQ(ticks[6], from + 3 * 366 * kDay);
	EXPECT_EQ(ticks[0], ticks[6] - 6);
	/* Rare ticks, and none at all. */
	Backlog rare = missed_ticks(cron_of("0 0 1 1 *"), from, moment(2030, 6, 1), utc, ticks, 1);
	EXPECT_EQ(rare.n, 1);
	EXPECT_EQ(rare.before, 4);
	EXPECT_EQ(ticks[0], moment(2030, 1, 1));
	EXPECT_EQ(missed_ticks(cron_of("0 5 * * *"), from, from + 3600, utc, ticks, 9).n, 0);
}

} // namespace
