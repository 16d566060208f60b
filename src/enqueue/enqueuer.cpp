#include "enqueue/enqueuer.h"

#include "catalog/owner_sql.h"

namespace pgq {

static bool
may_enqueue(Oid role)
{
	const SpiArgument arguments[] = {{OIDOID, ObjectIdGetDatum(role), false}};
	bool may = false;
	as_owner([&] {
		may = spi_execute(
				  "SELECT FROM pg_catalog.pg_proc p "
				  "JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::regclass "
				  "AND d.objid = p.oid AND d.refclassid = 'pg_catalog.pg_extension'::regclass "
				  "JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid "
				  "WHERE p.proname = 'pgq_enqueue' AND e.extname = 'pgq_ext' AND d.deptype = 'e' "
				  "AND pg_catalog.has_function_privilege($1, p.oid, 'EXECUTE')",
				  arguments) > 0;
	});
	return may;
}

void
require_enqueuer(Oid role, const char *name, const Made &made)
{
	if (!OidIsValid(role) || !SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("role \"%s\" does not exist", name),
				 errdetail("The %s enqueues with the rights of the role that made it.", made.what),
				 errhint("%s", made.remedy)));
	if (!may_enqueue(role))
		ereport(
			ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for function pgq_enqueue"),
			 errdetail("The %s enqueues with the rights of role \"%s\".", made.what, name),
			 errhint("Run GRANT EXECUTE ON FUNCTION pgq_enqueue TO %s.", quote_identifier(name))));
}

} // namespace pgq
