/* pgq_announce, which the install script calls. */
#include "api/args.h"
#include "txn/effects.h"

namespace pgq {

/*
 * Return a list of the roles, other than the owner and superusers, that may create objects in the
 * schema; nullptr if there are no such roles.
 */
static char *
creators(Oid schema)
{
	HeapTuple tuple = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(schema));
	if (!HeapTupleIsValid(tuple))
		return nullptr;
	Oid owner = reinterpret_cast<Form_pg_namespace>(GETSTRUCT(tuple))->nspowner;
	bool is_null;
	Datum value = SysCacheGetAttr(NAMESPACEOID, tuple, Anum_pg_namespace_nspacl, &is_null);
	StringInfoData names;
	initStringInfo(&names);
	Acl *acl = is_null ? nullptr : DatumGetAclP(value);
	for (int i = 0; acl != nullptr && i < ACL_NUM(acl); i++)
	{
		const AclItem &item = ACL_DAT(acl)[i];
		bool is_public = item.ai_grantee == ACL_ID_PUBLIC;
		if (!(ACLITEM_GET_PRIVS(item) & ACL_CREATE) || item.ai_grantee == owner ||
			(!is_public && superuser_arg(item.ai_grantee)))
			continue;
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "",
						 is_public ? "PUBLIC"
								   : quote_identifier(GetUserNameFromId(item.ai_grantee, false)));
	}
	ReleaseSysCache(tuple);
	return names.len > 0 ? names.data : nullptr;
}

static void
warn_of_open_schema()
{
	if (!creating_extension)
		return;
	/* While the install script runs, the search path begins with the schema of the extension. */
	Oid schema = linitial_oid(fetch_search_path(false));
	const char *who = creators(schema);
	if (who == nullptr)
		return;
	const char *name = quote_identifier(get_namespace_name(schema));
	ereport(
		WARNING,
		(errmsg("other roles may create objects in schema %s, which has the functions of pgq_ext",
				name),
		 errdetail(
			 "Such a role can create a function with the name of a function of pgq_ext and other "
			 "argument types. A call may then run that function, with the rights of the caller."),
		 errhint("Run REVOKE CREATE ON SCHEMA %s FROM %s, or create the extension in a schema of "
				 "its own.",
				 name, who)));
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_announce);

/* Internal function, called by the install script. Wakes the launcher at commit. */
PGDLLEXPORT Datum
pgq_announce(PG_FUNCTION_ARGS)
{
	start_verb("CREATE EXTENSION pgq_ext");
	warn_of_open_schema();
	announce_at_commit();
	PG_RETURN_VOID();
}
}
