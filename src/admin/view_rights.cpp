#include "admin/view_rights.h"

#include "catalog/owner_sql.h"

namespace pgq {

Grantee
grantee_of(const char *role)
{
	if (strcmp(role, "public") == 0)
		return {InvalidOid, "PUBLIC"};
	return {get_role_oid(role, false), quote_identifier(role)};
}

void
revoke_default_privileges(const char *view)
{
	static constexpr char kGrantees[] =
		"SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' "
		"ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END "
		"FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a "
		"WHERE c.relnamespace = 'pgq_ext'::pg_catalog.regnamespace AND c.relname = "
		"$1::pg_catalog.text "
		"AND a.grantee <> c.relowner";
	const SpiArgument name[] = {{TEXTOID, CStringGetTextDatum(view), false}};
	List *grantees = NIL;
	for (uint64 i = 0, n = spi_execute(kGrantees, name); i < n; i++)
		grantees =
			lappend(grantees, TextDatumGetCString(spi_value(static_cast<int>(i), 1, TEXTOID)));
	ListCell *cell;
	foreach (cell, grantees)
		spi_run("REVOKE ALL ON pgq_ext.%s FROM %s", view, static_cast<char *>(lfirst(cell)));
}

void
refuse_if_still_granted(const char *view, const char *role, const Grantee &grantee,
						const char *privileges)
{
	static constexpr char kGrantors[] =
		"SELECT pg_catalog.pg_get_userbyid(a.grantor)::pg_catalog.text "
		"FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a "
		"WHERE c.relnamespace = 'pgq_ext'::pg_catalog.regnamespace AND c.relname = "
		"$1::pg_catalog.text "
		"AND a.grantee = $2 AND pg_catalog.strpos($3, a.privilege_type) > 0 LIMIT 1";
	const SpiArgument arguments[] = {
		{TEXTOID, CStringGetTextDatum(view), false},
		{OIDOID, ObjectIdGetDatum(grantee.oid), false},
		{TEXTOID, CStringGetTextDatum(privileges), false},
	};
	if (spi_execute(kGrantors, arguments) == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_GRANT_OPERATION),
			 errmsg("rights of role \"%s\" were granted by another role", role),
			 errdetail("Role \"%s\" granted these rights.",
					   TextDatumGetCString(spi_value(0, 1, TEXTOID))),
			 errhint("Let the role that granted the rights REVOKE the privileges on the view "
					 "pgq_ext.%s.",
					 view)));
}

} // namespace pgq
