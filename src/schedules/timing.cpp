#include "schedules/timing.h"

namespace pgq {

/* ---- parsing ---- */

static constexpr char kEvery[] = "every";
static constexpr int kEveryLength = sizeof(kEvery) - 1;

static bool
is_period(const char *cron)
{
	return pg_strncasecmp(cron, kEvery, kEveryLength) == 0 && cron[kEveryLength] == ' ';
}

/* Parse the interval after the word "every", and return its length in seconds. */
static int64
period_of(const char *text)
{
	const Interval *interval = DatumGetIntervalP(DirectFunctionCall3(
		interval_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	int64 period =
		interval->day * static_cast<int64>(SECS_PER_DAY) + interval->time / USECS_PER_SEC;
	if (interval->month != 0 || interval->time % USECS_PER_SEC != 0 || period < 1 ||
		period > kFarthestTick)
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the period of a schedule must be a whole number of seconds, from 1 second to "
					"40 years"),
			 errdetail("The period is \"%s\".", text),
			 errhint("A day is counted as 24 hours. Months differ in length, so use '@monthly', or "
					 "'0 0 1 */3 *' for every third month.")));
	return period;
}

[[noreturn]] static void
refuse_cron(const CronError &error)
{
	char *text = pnstrdup(error.text.data(), error.text.size());
	char *field = pnstrdup(error.field.data(), error.field.size());
	ereport(
		ERROR,
		(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		 field[0] != '\0' ? errmsg("invalid %s in cron: \"%s\"", field, text)
						  : errmsg("invalid cron: \"%s\"", text),
		 errhint("Five fields are minute, hour, day of month, month and day of week, as in '*/5 "
				 "9-17 * * mon-fri'. A field of seconds may come first. Or use @yearly, "
				 "@monthly, @weekly, @daily, @hourly, or a period as in 'every 90 s'.")));
}

Timing
timing_of(const char *cron, const char *timezone)
{
	Timing timing{};
	CronError error;
	timing.zone = find_zone(timezone);
	if (timing.zone == nullptr)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("time zone \"%s\" not recognized", timezone),
						errhint("See pg_timezone_names for the known time zones.")));
	if (is_period(cron))
		timing.cron.period = period_of(cron + kEveryLength + 1);
	else if (!parse_cron(cron, &timing.cron, &error))
		refuse_cron(error);
	return timing;
}

/* ---- ticks ---- */

/* Seconds from 1970 to 2000, where the server's timestamps start. */
static constexpr int64 kEpoch =
	(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * static_cast<int64>(SECS_PER_DAY);

static int64
seconds_of(TimestampTz moment)
{
	int64 seconds = moment / USECS_PER_SEC;
	return kEpoch + seconds - (moment % USECS_PER_SEC < 0 ? 1 : 0);
}

static TimestampTz
timestamp_of(int64 seconds)
{
	return (seconds - kEpoch) * USECS_PER_SEC;
}

namespace {

struct ServerZone
{
	const pg_tz *zone;

	ZoneSpan span_at(int64 moment) const
	{
		ZoneSpan span;
		span.offset = offset_in_zone(zone, moment, &span.end);
		return span;
	}
};

} // namespace

TimestampTz
tick_after(const Timing &timing, TimestampTz moment)
{
	int64 tick = next_tick(timing.cron, seconds_of(moment), ServerZone{timing.zone});
	static constexpr int64 kEndOf9999 = INT64CONST(253402300799);
	return tick > kEndOf9999 ? DT_NOEND : timestamp_of(tick);
}

TimestampTz
first_tick_after(const Timing &timing, TimestampTz moment)
{
	TimestampTz tick = tick_after(timing, moment);
	if (tick == DT_NOEND)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the schedule would not run in the next 40 years"),
				 errhint("No date has both the day of month and the month of the schedule.")));
	return tick;
}

Backlog
missed_ticks(const Timing &timing, TimestampTz from, TimestampTz until, TimestampTz *ticks,
			 int most)
{
	Backlog backlog = missed_ticks(timing.cron, seconds_of(from), seconds_of(until),
								   ServerZone{timing.zone}, ticks, most);
	for (int i = 0; i < backlog.n; i++)
		ticks[i] = timestamp_of(ticks[i]);
	return backlog;
}

} // namespace pgq
