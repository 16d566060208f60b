#include "catalog/values.h"

#include "engine/queue_options.h"
#include "pg/clock.h"

namespace pgq {

/* ---- names ---- */

/*
 * Ranges of code points beyond ASCII that names must not contain: white space, invisible
 * characters, and characters that control the terminal or the direction of text.
 */
static constexpr pg_wchar kUnseen[][2] = {
	{0x80, 0xa0},		{0xad, 0xad},		{0x34f, 0x34f},		{0x61c, 0x61c},
	{0x115f, 0x1160},	{0x1680, 0x1680},	{0x17b4, 0x17b5},	{0x180b, 0x180f},
	{0x2000, 0x200f},	{0x2028, 0x202f},	{0x205f, 0x206f},	{0x3000, 0x3000},
	{0x3164, 0x3164},	{0xfe00, 0xfe0f},	{0xfeff, 0xfeff},	{0xffa0, 0xffa0},
	{0xfff0, 0xfffb},	{0x13430, 0x1345f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
	{0xe0000, 0xe0fff},
};

static bool
is_unseen(const char *c)
{
	const auto *byte = reinterpret_cast<const unsigned char *>(c);
	if (*byte < 0x80)
		return *byte <= ' ' || *byte == 0x7f;
	pg_wchar point = utf8_to_unicode(byte);
	for (const auto &[first, last] : kUnseen)
		if (point >= first && point <= last)
			return true;
	return false;
}

static bool
is_ascii(const char *text)
{
	while (*text != '\0' && !IS_HIGHBIT_SET(*text))
		text++;
	return *text == '\0';
}

/*
 * Return the text in UTF-8. If the encoding cannot be converted (SQL_ASCII), replace each byte
 * beyond ASCII by '?', since such bytes cannot be checked.
 */
static const char *
in_utf8(char *text)
{
	int encoding = GetDatabaseEncoding();
	if (encoding == PG_UTF8 || is_ascii(text))
		return text;
	if (encoding != PG_SQL_ASCII && OidIsValid(FindDefaultConversionProc(encoding, PG_UTF8)))
		return pg_server_to_any(text, static_cast<int>(strlen(text)), PG_UTF8);
	char *ascii = pstrdup(text);
	for (char *c = ascii; *c; c++)
		if (IS_HIGHBIT_SET(*c))
			*c = '?';
	return ascii;
}

[[noreturn]] static void
refuse_name(const char *name, const char *c, const char *of)
{
	const auto *byte = reinterpret_cast<const unsigned char *>(c);
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("the name of a %s must not contain white space, control characters or "
						   "invisible ones",
						   of),
					*byte < 0x80 ? errdetail("The name is \"%s\".", name)
								 : errdetail("The name is \"%s\", with U+%04X in it.", name,
											 static_cast<unsigned>(utf8_to_unicode(byte)))));
}

char *
queue_name(Datum value)
{
	return checked_name(value, "queue");
}

char *
checked_name(Datum value, const char *of)
{
	char *name = text_to_cstring(DatumGetTextPP(value));
	size_t length = strlen(name);
	if (length == 0 || length > 59)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the name of a %s must have 1 to 59 bytes", of),
						errdetail("The name has %zu bytes.", length)));
	for (const char *c = in_utf8(name); *c;
		 c += IS_HIGHBIT_SET(*c) ? pg_encoding_mblen(PG_UTF8, c) : 1)
		if (is_unseen(c))
			refuse_name(name, c, of);
	return name;
}

/* ---- numbers and times ---- */

static void
out_of_range(const char *name, const char *what)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is out of range", name),
					errhint("%s must be %s.", name, what)));
}

/*
 * Return whether the months, the days or the time of the interval are above a thousand years: such
 * large parts could overflow the sum, or add up to a small sum.
 */
static bool
is_absurd(const Interval *interval)
{
	static constexpr int kMonths = kThousandYears / DAYS_PER_MONTH / USECS_PER_DAY;
	static constexpr int kDays = kThousandYears / USECS_PER_DAY;
	return interval->month < -kMonths || interval->month > kMonths || interval->day < -kDays ||
		   interval->day > kDays || interval->time < -kThousandYears ||
		   interval->time > kThousandYears;
}

int64
duration(Datum value, const char *name, int64 limit)
{
	const Interval *interval = DatumGetIntervalP(value);
	int64 most = limit > 0 ? limit : kThousandYears;
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
	/* Upper bound of a thousand calendar years. */
	static constexpr int64 kFarthest = INT64CONST(1000) * 366 * USECS_PER_DAY;
	TimestampTz now = wall_now();
	if (TIMESTAMP_NOT_FINITE(value) || value > now + kFarthest || value < now - 10 * kFarthest)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is out of range", name),
				 errhint("%s must be a finite time less than a thousand years from now.", name)));
	return value;
}

Datum
key_value(Datum value, const char *name)
{
	static constexpr size_t kKeyMax = 255;
	const text *key = DatumGetTextPP(value);
	size_t length = VARSIZE_ANY_EXHDR(key);
	if (length == 0 || length > kKeyMax)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s must have 1 to %zu bytes", name, kKeyMax),
						errdetail("The value has %zu bytes.", length)));
	return PointerGetDatum(key);
}

int32
in_range(int32 value, int32 least, int32 most, const char *name)
{
	if (value < least || value > most)
		out_of_range(name, psprintf("between %d and %d", least, most));
	return value;
}

int64
not_negative(int64 value, const char *name)
{
	if (value < 0)
		out_of_range(name, "0 or more");
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

int64
one_second_or_more(Datum interval, const char *name)
{
	int64 length = duration(interval, name);
	if (length < kLeaseTimeMin)
		out_of_range(name, "at least 1 second");
	return length;
}

int64
exact_period(Datum interval, const char *name)
{
	int64 length = one_second_or_more(interval, name);
	if (DatumGetIntervalP(interval)->month != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s must not have months or years", name),
						errhint("Months and years differ in length. Use days.")));
	return length;
}

int64
max_runtime(Datum interval, const char *name)
{
	int64 length = duration(interval, name);
	if (length != 0 && length < kLeaseTimeMin)
		out_of_range(name, "0, or at least 1 second");
	return length;
}

float8
jitter(float8 value, const char *name)
{
	if (!(value >= 0.0 && value <= 1.0))
		out_of_range(name, "between 0 and 1");
	return value;
}

Datum
clipped_error(Datum value)
{
	text *t = DatumGetTextPSlice(value, 0, kErrorMax + MAX_MULTIBYTE_CHAR_LEN);
	int length = pg_mbcliplen(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t), kErrorMax);
	return PointerGetDatum(cstring_to_text_with_len(VARDATA_ANY(t), length));
}

} // namespace pgq
