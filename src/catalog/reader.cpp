#include "catalog/reader.h"

#include <span>

namespace pgq {

/* Return whether the role has the privilege by a grant to a grantee other than `besides`. */
static bool
is_granted(const Acl *acl, Oid role, AclMode privilege, Oid besides)
{
	for (const AclItem &item : std::span(ACL_DAT(acl), ACL_NUM(acl)))
		if (item.ai_grantee != besides && (ACLITEM_GET_PRIVS(item) & privilege) != 0 &&
			(item.ai_grantee == ACL_ID_PUBLIC || has_privs_of_role(role, item.ai_grantee)))
			return true;
	return false;
}

/*
 * Like is_granted() above, for an object of the catalog. tuple: the row of the object; column:
 * number of the column with the object's privileges; by_default: the privileges if that column is
 * NULL.
 */
static bool
is_granted(CacheId cache, HeapTuple tuple, int column, const Acl *by_default, AclMode privilege,
		   Oid besides)
{
	bool is_null;
	Datum value = SysCacheGetAttr(cache, tuple, column, &is_null);
	const Acl *acl = is_null ? by_default : DatumGetAclP(value);
	return acl != nullptr && is_granted(acl, GetUserId(), privilege, besides);
}

static Oid
find_view(const char *name)
{
	return get_relname_relid(name, get_namespace_oid("pgq_ext", false));
}

/* ---- functions ---- */

static bool
is_reader_of(Oid view)
{
	return OidIsValid(view) &&
		   (pg_class_aclcheck(view, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
			pg_attribute_aclcheck_all(view, GetUserId(), ACL_SELECT, ACLMASK_ANY) == ACLCHECK_OK);
}

static bool
has_own_execute(Oid function)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return false;
	Oid owner = reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple))->proowner;
	bool has = is_granted(PROCOID, tuple, Anum_pg_proc_proacl, acldefault(OBJECT_FUNCTION, owner),
						  ACL_EXECUTE, ACL_ID_PUBLIC);
	ReleaseSysCache(tuple);
	return has;
}

[[noreturn]] static void
complain_no_reader(Oid function, const char *view)
{
	const char *role = quote_identifier(GetUserNameFromId(GetUserId(), false));
	const char *name = get_func_name(function);
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for function %s", name),
			 errdetail("Role \"%s\" may not read the view pgq_ext.%s.",
					   GetUserNameFromId(GetUserId(), false), view),
			 errhint("Run GRANT SELECT ON pgq_ext.%s TO %s. If the role reads that view through "
					 "another view, run GRANT EXECUTE ON FUNCTION pgq_ext.%s TO %s.",
					 view, role, name, role)));
}

void
require_reader(FunctionCallInfo fcinfo, std::initializer_list<const char *> views)
{
	Oid function = fcinfo->flinfo->fn_oid;
	if (superuser())
		return;
	for (const char *view : views)
		if (is_reader_of(find_view(view)))
			return;
	if (!has_own_execute(function))
		complain_no_reader(function, *views.begin());
}

/* ---- secrets ---- */

static bool
may_read_all(Oid view)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(view));
	if (!HeapTupleIsValid(tuple))
		return false;
	Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
	bool may = is_granted(RELOID, tuple, Anum_pg_class_relacl, acldefault(OBJECT_TABLE, owner),
						  ACL_SELECT, ROLE_PG_MONITOR);
	ReleaseSysCache(tuple);
	return may;
}

static bool
may_read_column(Oid view, const char *column)
{
	HeapTuple tuple = SearchSysCacheAttName(view, column);
	if (!HeapTupleIsValid(tuple))
		return false;
	bool may =
		is_granted(ATTNAME, tuple, Anum_pg_attribute_attacl, nullptr, ACL_SELECT, ROLE_PG_MONITOR);
	ReleaseSysCache(tuple);
	return may;
}

bool
may_read(const char *view, const char *column)
{
	Oid relid = find_view(view);
	return superuser() ||
		   (OidIsValid(relid) && (has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_DATA) ||
								  may_read_all(relid) || may_read_column(relid, column)));
}

} // namespace pgq
