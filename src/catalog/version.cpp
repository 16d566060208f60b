#include "catalog/version.h"

namespace pgq {

static constinit object_access_hook_type next_object_access_hook = nullptr;

/*
 * After ALTER EXTENSION UPDATE, invalidate the data that backends cache about the extension. The
 * server itself sends no invalidation, since it has no cache of pg_extension.
 */
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

/*
 * Return the version of the extension that is installed in this database; nullptr if none is
 * installed. Reads the whole catalog, which is a page: a session that has just begun would need
 * longer to open its index.
 */
static char *
installed_version()
{
	char *version = nullptr;
	Relation rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum("pgq_ext"));
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, nullptr, 1, &key);
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
is_served(const char *version)
{
	return strcmp(version, PGQ_VERSION) == 0 || strcmp(version, PGQ_VERSION_BEFORE) == 0;
}

Served
look_at_version()
{
	const char *installed = installed_version();
	if (installed == nullptr || !is_served(installed))
		return Served::kNo;
	return strcmp(installed, PGQ_VERSION) == 0 ? Served::kOwn : Served::kBefore;
}

/* Return whether version a is newer than version b. Versions are numbers separated by dots. */
static bool
is_newer(const char *a, const char *b)
{
	for (;;)
	{
		char *end_of_a;
		char *end_of_b;
		long x = strtol(a, &end_of_a, 10);
		long y = strtol(b, &end_of_b, 10);
		if (x != y || *end_of_a != '.' || *end_of_b != '.')
			return x != y ? x > y : *end_of_a == '.';
		a = end_of_a + 1;
		b = end_of_b + 1;
	}
}

void
report_versions(int level)
{
	const char *installed = installed_version();
	const char *database = get_database_name(MyDatabaseId);
	bool newer = installed != nullptr && is_newer(installed, PGQ_VERSION);
	ereport(level, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("library and SQL objects of pgq_ext have different versions"),
					errdetail("The library pgq_ext is %s, the extension in database \"%s\" is %s.",
							  PGQ_VERSION, database, installed ? installed : "gone"),
					newer ? errhint("Install pgq_ext %s and restart the server.", installed)
						  : errhint("Run ALTER EXTENSION pgq_ext UPDATE in this database.")));
}

} // namespace pgq
