#include "jobs/job_filter.h"

#include "catalog/values.h"

namespace pgq {

static_assert(kErrorMax == 8192, "PGQ_MATCHES has this number");

Datum
checked_pattern(Datum pattern, const char *name)
{
	const text *like = DatumGetTextPP(pattern);
	int length = static_cast<int>(VARSIZE_ANY_EXHDR(like));
	if (length == 0 || length > kPatternMax)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s must have 1 to %d bytes", name, kPatternMax),
						errdetail("The value has %d bytes.", length)));
	/* An escape character at the end is one that no other escape character precedes. */
	int escapes = 0;
	while (escapes < length && VARDATA_ANY(like)[length - 1 - escapes] == '\\')
		escapes++;
	if (escapes % 2 != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_ESCAPE_SEQUENCE),
						errmsg("%s must not end with the escape character", name),
						errhint("To match a backslash, write it twice.")));
	return PointerGetDatum(like);
}

static bool
is_like(Datum error, Datum pattern)
{
	Datum beginning =
		DirectFunctionCall3(text_substr, error, Int32GetDatum(1), Int32GetDatum(kErrorMax));
	return DatumGetBool(DirectFunctionCall2Coll(textlike, C_COLLATION_OID, beginning, pattern));
}

bool
matches(const JobFilter &filter, const JobRow &row)
{
	if (!filter.since.is_null || !filter.before.is_null)
		return false;
	if (!filter.group_key.is_null &&
		(row.is_null(kJobGroupKey) ||
		 !DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, row.value(kJobGroupKey),
											   filter.group_key.value))))
		return false;
	return filter.error_like.is_null ||
		   (!row.is_null(kJobLastError) &&
			is_like(row.value(kJobLastError), filter.error_like.value));
}

} // namespace pgq
