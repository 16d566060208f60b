#include "catalog/option_value.h"

#include "catalog/values.h"

#include <algorithm>
#include <cmath>

namespace pgq {

Datum
value_from(Oid type, const char *text)
{
	Oid input;
	Oid parameter;
	getTypeInputInfo(type, &input, &parameter);
	return OidInputFunctionCall(input, const_cast<char *>(text), parameter, -1);
}

/* Return as a number the LogAttempts that the text names; -1 if it names none. */
static int
log_attempts_of(Datum value)
{
	const text *bytes = DatumGetTextPP(value);
	auto length = static_cast<size_t>(VARSIZE_ANY_EXHDR(bytes));
	for (int i = 0; i < static_cast<int>(lengthof(log_attempts_names)); i++)
		if (length == strlen(log_attempts_names[i]) &&
			memcmp(VARDATA_ANY(bytes), log_attempts_names[i], length) == 0)
			return i;
	return -1;
}

static void
check_log_attempts(Datum value, const char *name)
{
	if (log_attempts_of(value) < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid value for %s: \"%s\"", name,
							   text_to_cstring(DatumGetTextPP(value))),
						errhint("Available values: none, failed, all.")));
}

void
check_option(const QueueOption &option, Datum value)
{
	/* Call the check for values of this kind, which raises an error for a bad value. */
	switch (option.kind)
	{
		case OptionKind::kLeaseTime:
			(void) lease_time(value, option.name);
			break;
		case OptionKind::kPeriod:
			(void) one_second_or_more(value, option.name);
			break;
		case OptionKind::kRuntime:
			(void) max_runtime(value, option.name);
			break;
		case OptionKind::kDuration:
			(void) duration(value, option.name);
			break;
		case OptionKind::kCount:
			(void) in_range(DatumGetInt32(value), 1, INT32_MAX, option.name);
			break;
		case OptionKind::kLimit:
			(void) in_range(DatumGetInt32(value), 0, INT32_MAX, option.name);
			break;
		case OptionKind::kLongLimit:
			(void) not_negative(DatumGetInt64(value), option.name);
			break;
		case OptionKind::kShare:
			(void) jitter(DatumGetFloat8(value), option.name);
			break;
		case OptionKind::kLog:
			check_log_attempts(value, option.name);
			break;
		case OptionKind::kFlag:
			break;
	}
}

void
check_together(const QueueOptions &options)
{
	if (options.fair && options.group_rate_limit > 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("cannot specify both fair and group_rate_limit"),
						errhint("Set only one of the two.")));
	if (options.fifo && options.group_concurrency > 1)
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("cannot specify both fifo and group_concurrency %d", options.group_concurrency),
			 errhint("Set only one of them: fifo hands out one job of a group at a time.")));
}

/*
 * Return the microseconds of an interval, limited to the range of int64: a user's SQL may have
 * stored any interval.
 */
static int64
interval_microseconds(const Interval *interval)
{
	static constexpr int64 kMostDays = INT64_MAX / USECS_PER_DAY;
	int64 days = interval->day + static_cast<int64>(interval->month) * DAYS_PER_MONTH;
	int64 result;
	if (days > kMostDays || days < -kMostDays)
		return days > 0 ? INT64_MAX : INT64_MIN;
	if (pg_add_s64_overflow(days * USECS_PER_DAY, interval->time, &result))
		return days > 0 ? INT64_MAX : INT64_MIN;
	return result;
}

static int64
microseconds_between(Datum value, int64 least, int64 most)
{
	return std::clamp(interval_microseconds(DatumGetIntervalP(value)), least, most);
}

static float8
share_of(const QueueOption &option, Datum value)
{
	float8 share = DatumGetFloat8(value);
	if (std::isnan(share))
		share = DatumGetFloat8(value_from(FLOAT8OID, option.initial));
	return std::clamp(share, 0.0, 1.0);
}

static LogAttempts
log_of(const QueueOption &option, Datum value)
{
	int log = log_attempts_of(value);
	if (log < 0)
		log = log_attempts_of(value_from(TEXTOID, option.initial));
	return static_cast<LogAttempts>(log);
}

template <typename T>
static void
put(QueueOptions *options, const QueueOption &option, T value)
{
	memcpy(reinterpret_cast<char *>(options) + option.place, &value, sizeof(value));
}

void
set_option(QueueOptions *options, const QueueOption &option, Datum value)
{
	if (option.place == kOnlyInSql)
		return;
	/*
	 * Limit the value to its range: a row that a restore or replication has written was not
	 * checked.
	 */
	switch (option.kind)
	{
		case OptionKind::kLeaseTime:
			return put(options, option, microseconds_between(value, kLeaseTimeMin, kLeaseTimeMax));
		case OptionKind::kPeriod:
			return put(options, option, microseconds_between(value, kLeaseTimeMin, kThousandYears));
		case OptionKind::kRuntime:
		case OptionKind::kDuration:
			return put(options, option, microseconds_between(value, 0, kThousandYears));
		case OptionKind::kCount:
			return put(options, option, Max(DatumGetInt32(value), 1));
		case OptionKind::kLimit:
			return put(options, option, Max(DatumGetInt32(value), 0));
		case OptionKind::kLongLimit:
			return put(options, option, Max(DatumGetInt64(value), INT64CONST(0)));
		case OptionKind::kShare:
			return put(options, option, share_of(option, value));
		case OptionKind::kFlag:
			return put(options, option, DatumGetBool(value));
		case OptionKind::kLog:
			return put(options, option, log_of(option, value));
	}
}

} // namespace pgq
