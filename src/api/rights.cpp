/* pgq_grant and pgq_revoke; and the functions by which the views check rights. */
#include "admin/privileges.h"
#include "api/args.h"
#include "catalog/reader.h"

namespace pgq {

static RightSet
read_rights(FunctionCallInfo fcinfo)
{
	Datum *names;
	RightSet rights{};
	int n = elements_of(required(fcinfo, 2, "rights"), TEXTOID, "rights", &names);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("rights must not be empty"),
				 errhint("Available rights: enqueue, claim, inspect, admin.")));
	for (int i = 0; i < n; i++)
		rights.has[static_cast<int>(right_of_name(TextDatumGetCString(names[i])))] = true;
	return rights;
}

static void
change_rights(FunctionCallInfo fcinfo,
			  void (*change)(const char *queue, const char *role, const RightSet &rights))
{
	char *queue = queue_name(required(fcinfo, 0, "queue"));
	char *role = TextDatumGetCString(required(fcinfo, 1, "role"));
	change(queue, role, read_rights(fcinfo));
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_grant);
PG_FUNCTION_INFO_V1(pgq_revoke);
PG_FUNCTION_INFO_V1(pgq_may_see);
PG_FUNCTION_INFO_V1(pgq_may_read);

PGDLLEXPORT Datum
pgq_grant(PG_FUNCTION_ARGS)
{
	start_write("pgq_grant()");
	change_rights(fcinfo, grant_rights);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_revoke(PG_FUNCTION_ARGS)
{
	start_write("pgq_revoke()");
	change_rights(fcinfo, revoke_rights);
	PG_RETURN_VOID();
}

/*
 * Internal function: returns whether the views show the jobs of that queue to the caller. Works on
 * a standby.
 */
PGDLLEXPORT Datum
pgq_may_see(PG_FUNCTION_ARGS)
{
	require_preloaded();
	PG_RETURN_BOOL(given(fcinfo, 0) && may_see(PG_GETARG_INT32(0)));
}

/*
 * Internal function: returns whether the caller may read the secrets in that column of a view.
 * Works on a standby.
 */
PGDLLEXPORT Datum
pgq_may_read(PG_FUNCTION_ARGS)
{
	require_preloaded();
	PG_RETURN_BOOL(
		given(fcinfo, 0) && given(fcinfo, 1) &&
		may_read(TextDatumGetCString(PG_GETARG_DATUM(0)), TextDatumGetCString(PG_GETARG_DATUM(1))));
}
}
