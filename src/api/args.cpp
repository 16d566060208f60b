#include "api/args.h"

#include "engine/shared.h"

namespace pgq {

static constexpr int64 kLongest = INT64CONST(1000) * 366 * USECS_PER_DAY;

void
start_verb(const char *name)
{
	require_preloaded();
	PreventCommandIfParallelMode(name);
	PreventCommandDuringRecovery(name);
}

void
start_write(const char *name)
{
	start_verb(name);
	PreventCommandIfReadOnly(name);
}

Datum
required(FunctionCallInfo fcinfo, int i, const char *name)
{
	if (PG_ARGISNULL(i))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", name),
				 errhint("Pass a value for the argument \"%s\".", name)));
	return PG_GETARG_DATUM(i);
}

void
not_yet(bool passed, const char *name)
{
	if (passed)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("%s is not supported yet", name),
				 errhint("Leave the argument \"%s\" out.", name)));
}

/* White space and control characters of ASCII, and in UTF-8 those of Unicode. */
static bool
is_space_or_control(const char *c)
{
	const auto *byte = reinterpret_cast<const unsigned char *>(c);
	if (*byte < 0x80 || GetDatabaseEncoding() != PG_UTF8)
		return *byte <= ' ' || *byte == 0x7f;
	pg_wchar point = utf8_to_unicode(byte);
	return (point >= 0x80 && point <= 0xa0) || point == 0x1680 ||
		   (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
		   point == 0x202f || point == 0x205f || point == 0x3000;
}

char *
queue_name(Datum value)
{
	char *name = text_to_cstring(DatumGetTextPP(value));
	size_t length = strlen(name);
	if (length == 0 || length > 59)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the name of a queue must have 1 to 59 bytes"),
						errdetail("This one has %zu.", length)));
	for (const char *c = name; *c; c += pg_mblen(c))
		if (is_space_or_control(c))
			ereport(
				ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the name of a queue must not contain white space or control characters"),
				 errdetail("The name is \"%s\".", name)));
	return name;
}

char *
clipped(Datum value, int most)
{
	text *t = DatumGetTextPP(value);
	int length = pg_mbcliplen(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t), most);
	return pnstrdup(VARDATA_ANY(t), length);
}

static void
out_of_range(const char *name, const char *what)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is out of range", name),
					errhint("%s must be %s.", name, what)));
}

/* Large parts of either sign could overflow, or cancel out to something that looks small. */
static bool
is_absurd(const Interval *interval)
{
	return interval->month < -12000 || interval->month > 12000 || interval->day < -366000 ||
		   interval->day > 366000 || interval->time < -kLongest || interval->time > kLongest;
}

int64
duration(Datum value, const char *name, int64 limit)
{
	const Interval *interval = DatumGetIntervalP(value);
	int64 most = limit > 0 ? limit : kLongest;
	int64 length = 0;
	if (!is_absurd(interval))
		length =
			interval->time +
			(interval->day + static_cast<int64>(interval->month) * DAYS_PER_MONTH) * USECS_PER_DAY;
	if (is_absurd(interval) || length < 0 || length > most)
		out_of_range(name, limit > 0 ? psprintf("between 0 and %lld s",
												static_cast<long long>(limit / USECS_PER_SEC))
									 : "between 0 and a thousand years");
	return length;
}

TimestampTz
moment_after(TimestampTz from, Datum interval, const char *name)
{
	(void) duration(interval, name);
	TimestampTz moment = DatumGetTimestampTz(
		DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(from), interval));
	return Max(moment, from);
}

TimestampTz
finite_moment(TimestampTz value, const char *name)
{
	TimestampTz now = GetCurrentTimestamp();
	if (TIMESTAMP_NOT_FINITE(value) || value > now + kLongest || value < now - 10 * kLongest)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is out of range", name),
				 errhint("%s must be a finite time less than a thousand years from now.", name)));
	return value;
}

int32
in_range(int32 value, int32 least, int32 most, const char *name)
{
	if (value < least || value > most)
		out_of_range(name, psprintf("between %d and %d", least, most));
	return value;
}

int64
lease_time(Datum interval, const char *name)
{
	const Interval *value = DatumGetIntervalP(interval);
	if (is_absurd(value))
		out_of_range(name, "between 1 second and 7 days");
	int64 length = value->time +
				   (value->day + static_cast<int64>(value->month) * DAYS_PER_MONTH) * USECS_PER_DAY;
	if (length < kLeaseTimeMin || length > kLeaseTimeMax)
		out_of_range(name, "between 1 second and 7 days");
	return length;
}

int
elements_of(Datum value, Oid type, const char *name, Datum **elements)
{
	ArrayType *array = DatumGetArrayTypeP(value);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
						errmsg("%s must be a one-dimensional array", name)));
	int16 length;
	bool by_value;
	char align;
	get_typlenbyvalalign(type, &length, &by_value, &align);
	bool *nulls;
	int n;
	deconstruct_array(array, type, length, by_value, align, elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("%s must not contain nulls", name),
							errdetail("Element %d is null.", i + 1)));
	return n;
}

} // namespace pgq
