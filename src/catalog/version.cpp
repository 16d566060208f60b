#include "catalog/version.h"

namespace pgq {

static constinit object_access_hook_type next_object_access_hook = nullptr;

/* ALTER EXTENSION UPDATE changes a catalog that no cache holds, so nobody is told unless we do it. */
static void
at_object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *argument)
{
	if (next_object_access_hook != nullptr)
		next_object_access_hook(access, class_id, object_id, sub_id, argument);
	if (access != OAT_POST_ALTER || class_id != ExtensionRelationId ||
		object_id != get_extension_oid("pgq_ext", true))
		return;
	Oid queue = get_relname_relid("queue", get_namespace_oid("pgq_ext", true));
	if (OidIsValid(queue))
		CacheInvalidateRelcacheByRelid(queue);
}

void
version_init()
{
	next_object_access_hook = object_access_hook;
	object_access_hook = at_object_access;
}

/* The version of the extension that is installed here, or NULL. */
static char *
installed_version()
{
	char *version = nullptr;
	Relation rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum("pgq_ext"));
	SysScanDesc scan = systable_beginscan(rel, ExtensionNameIndexId, true, nullptr, 1, &key);
	HeapTuple tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool is_null;
		version = TextDatumGetCString(
			heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(rel), &is_null));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return version;
}

bool
extension_installed()
{
	return OidIsValid(get_extension_oid("pgq_ext", true));
}

bool
versions_agree()
{
	const char *installed = installed_version();
	return installed != nullptr && strcmp(installed, PGQ_VERSION) == 0;
}

void
report_versions(int level)
{
	const char *installed = installed_version();
	ereport(
		level,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		 errmsg("library and SQL versions differ"),
		 errdetail("The library pgq_ext is %s, the extension in database \"%s\" is %s.",
				   PGQ_VERSION, get_database_name(MyDatabaseId), installed ? installed : "gone"),
		 errhint("Run ALTER EXTENSION pgq_ext UPDATE, or restart the server if its library is "
				 "the older one.")));
}

} // namespace pgq
